package cell

import (
	"context"
	"fmt"
	"os"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/cellproto"
)

// compiled is what came of a compiler: a product, or the result that ends the
// run without one.
type compiled struct {
	compile *api.Compile // nil if the compiler never ran
	product []File
	result  *api.Result
}

// compile runs the compiler of a job in a cell of its own. Only its product moves
// on, by the rules of artifacts.
func (h *Host) compile(ctx context.Context, job *Job) compiled {
	step := &Job{Profile: CompileProfile, Argv: job.Compile.Argv, Env: job.Compile.Env, Files: job.Files, Limits: job.Compile.Limits}
	r := &run{h: h, job: step, ctx: ctx, want: cellproto.Collect{
		Place: cellproto.PlaceProduct, Patterns: []string{"**"}, Bytes: api.MaxArtifactBytes,
		FileBytes: min(api.MaxArtifactBytes, uint64(step.Limits.FileBytes)), Files: api.MaxArtifacts, MS: collectMS,
	}}
	r.do()
	res := &r.result
	made := compiled{}
	if res.Verdict != api.SetupFailed {
		made.compile = &api.Compile{ExitCode: res.ExitCode, Stdout: res.Stdout, Stderr: res.Stderr, Truncated: res.Truncated,
			WallMS: res.WallMS, CPUMS: res.CPUMS, PeakBytes: res.PeakBytes}
	}
	verdict, cause, message := api.CompileError, "", ""
	switch res.Verdict {
	case api.OK:
		if message = unfit(res, job); message == "" {
			for _, a := range res.Artifacts {
				made.product = append(made.product, File{Name: a.Name, Mode: a.Mode, Data: a.Content})
			}
			return made
		}
	case api.Error:
		message = "the compiler refused the program"
		if res.Signal != "" {
			message = "the compiler was ended by " + res.Signal
		}
	case api.Timeout:
		cause, message = res.Cause, "the compiler ran out of "+map[string]string{api.CauseWall: "time", api.CauseCPU: "processor time"}[res.Cause]
	case api.MemoryLimit:
		cause, message = api.CauseMemory, "the compiler ran out of memory"
	case api.OutputLimit:
		cause, message = res.Cause, "the compiler wrote too much to "+res.Cause
	default: // denied, canceled, interrupted, setup_failed
		verdict, cause, message = res.Verdict, res.Cause, res.Message
	}
	made.result = &api.Result{Verdict: verdict, Cause: cause, Message: message, Stage: res.Stage, Syscall: res.Syscall,
		Compile: made.compile, SetupMS: res.SetupMS, Warnings: res.Warnings, Evidence: res.Evidence, APIVersion: api.Version}
	return made
}

// unfit is why a product cannot be run.
func unfit(res *api.Result, job *Job) string {
	if len(res.RefusedArtifacts) > 0 {
		a := res.RefusedArtifacts[0]
		return fmt.Sprintf("the compiler's product: %s: %s", a.Name, a.Reason)
	}
	if len(res.Artifacts) == 0 {
		return "the compiler made nothing"
	}
	page := int64(os.Getpagesize())
	size, files := int64(0), int64(len(res.Artifacts)+len(job.Files))
	for _, a := range res.Artifacts {
		size += (a.Size + page - 1) / page * page
	}
	for _, f := range job.Files {
		size += (int64(len(f.Data)) + page - 1) / page * page
	}
	switch {
	case size > job.Limits.DiskBytes:
		return fmt.Sprintf("the compiler's product and the files take %d bytes, more than limits.disk_bytes, %d", size, job.Limits.DiskBytes)
	case files > job.Limits.DiskFiles:
		return fmt.Sprintf("the compiler's product and the files are %d, more than limits.disk_files, %d", files, job.Limits.DiskFiles)
	}
	return ""
}
