package cell

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"

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
	product, res := h.make(ctx, job.Compile, job.Files, cellproto.Collect{Bytes: api.MaxArtifactBytes, Files: api.MaxArtifacts, MS: collectMS})
	made := compiled{}
	if res.Verdict != api.SetupFailed || res.ExitCode != nil {
		made.compile = &api.Compile{ExitCode: res.ExitCode, Stdout: res.Stdout, Stderr: res.Stderr, Truncated: res.Truncated,
			WallMS: res.WallMS, CPUMS: res.CPUMS, PeakBytes: res.PeakBytes}
	}
	verdict, cause, message := api.CompileError, "", ""
	switch res.Verdict {
	case api.OK:
		if message = unfit(res, job); message == "" {
			made.product = product
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

// makeMS bounds the collection of what Make returns, for which nobody waits.
const makeMS = 60_000

// Make runs a step in a compiler's cell and returns what it left in ProductDir, at
// most that many bytes and files. The product is nil unless the verdict is ok and
// nothing was refused.
func (h *Host) Make(ctx context.Context, step *Step, bytes, files uint64) ([]File, *api.Result, error) {
	if !h.enter() {
		return nil, nil, api.ErrClosed
	}
	defer h.work.Done()
	if err := h.place(ctx); err != nil {
		return nil, nil, err
	}
	defer func() { <-h.running }()
	product, res := h.make(ctx, step, nil, cellproto.Collect{Bytes: bytes, Files: files, MS: makeMS})
	return product, res, nil
}

func (h *Host) make(ctx context.Context, step *Step, in []File, want cellproto.Collect) ([]File, *api.Result) {
	job := &Job{Profile: CompileProfile, Argv: step.Argv, Env: step.Env, Files: in, Limits: step.Limits}
	want.Place, want.Patterns, want.FileBytes = cellproto.PlaceProduct, []string{"**"}, min(want.Bytes, uint64(step.Limits.FileBytes))
	r := &run{h: h, job: job, ctx: ctx, want: want}
	r.do()
	if r.result.Verdict == api.OK && r.lost != nil {
		r.unmade()
	}
	if r.result.Verdict != api.OK || len(r.result.RefusedArtifacts) > 0 {
		return nil, &r.result
	}
	var out []File
	for _, a := range r.result.Artifacts {
		out = append(out, File{Name: a.Name, Mode: a.Mode, Data: a.Content})
	}
	return out, &r.result
}

// unmade is the end of a compiler whose product was lost on the way out.
func (r *run) unmade() {
	res := &r.result
	switch {
	case r.ctx.Err() != nil:
		res.Verdict = api.Canceled
	case r.h.ctx.Err() != nil:
		res.Verdict, res.Message = api.Interrupted, closedMessage
	case errors.Is(r.lost, errStarved):
		res.Verdict = api.MemoryLimit
	default:
		res.Verdict, res.Stage, res.Message = api.SetupFailed, "collect", "the compiler's product: "+words(r.lost.Error(), maxWords)
	}
}

// Inodes is how many files and directories there are to files of these names in
// one folder.
func Inodes(names []string) int64 {
	all := map[string]bool{}
	for _, name := range names {
		for ; name != "." && !all[name]; name = path.Dir(name) {
			all[name] = true
		}
	}
	return int64(len(all))
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
	var size int64
	var made, given []string
	for _, a := range res.Artifacts {
		size += (a.Size + page - 1) / page * page
		made = append(made, a.Name)
	}
	for _, f := range job.Files {
		size += (int64(len(f.Data)) + page - 1) / page * page
		given = append(given, f.Name)
	}
	files := Inodes(made) + Inodes(given)
	switch {
	case size > job.Limits.DiskBytes:
		return fmt.Sprintf("the compiler's product and the files take %d bytes, more than limits.disk_bytes, %d", size, job.Limits.DiskBytes)
	case files > job.Limits.DiskFiles:
		return fmt.Sprintf("the compiler's product and the files are %d with their directories, more than limits.disk_files, %d", files, job.Limits.DiskFiles)
	}
	return ""
}
