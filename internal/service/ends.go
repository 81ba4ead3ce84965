package service

import (
	"context"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/admission"
	"github.com/glovebox-dev/glovebox/internal/executor"
	"github.com/glovebox-dev/glovebox/internal/queue"
	"github.com/glovebox-dev/glovebox/internal/strictjson"
	"github.com/glovebox-dev/glovebox/internal/telemetry"
)

// taken hears of a job that the executor of this process holds. One that has lost
// executors before is slowed for its owner first, in case it ends this one too.
func (s *Service) taken(j queue.Job, losses int, note executor.Note) {
	s.admission.Adopt(j.ID, j.Client)
	if losses == 0 || note.Source == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), step)
	defer cancel()
	if err := s.admission.Lost(ctx, j.Client, note.Source); err != nil {
		s.o.Log.Warn("a program that lost its executor is not slowed", "run", j.ID, "error", err)
	}
}

// step bounds what is asked of the store.
const step = 10 * time.Second

// ended hears of a run to which the executor of this process gave its final event.
func (s *Service) ended(e executor.End) {
	ctx, cancel := context.WithTimeout(context.Background(), step)
	defer cancel()
	s.admission.Done(e.Job.ID)
	s.finished(ctx, e.Job, e.Result, e.Language)
	if client, err := admission.Restore(e.Job.Client); err == nil {
		cost := admission.Cost{StoredBytes: int64(len(e.Job.Program) + len(e.Data))}
		if e.Result.CPUMS != nil {
			cost.CPUMS = int64(*e.Result.CPUMS)
		}
		if c := e.Result.Compile; c != nil && c.CPUMS != nil {
			cost.CPUMS += int64(*c.CPUMS)
		}
		for _, a := range e.Result.Artifacts {
			cost.StoredBytes += a.Size
		}
		if err := s.admission.Spend(ctx, client, cost); err != nil {
			s.o.Log.Warn("what a run cost is not counted", "run", e.Job.ID, "error", err)
		}
	}
	if e.Losses > 0 && e.Note.Source != "" {
		if err := s.admission.Cleared(ctx, e.Job.Client, e.Note.Source); err != nil {
			s.o.Log.Warn("a program stays slowed", "run", e.Job.ID, "error", err)
		}
	}
}

// settled hears of a run that the queue ended, since what ran it is gone. It may come
// while the service is still being opened, and must not wait.
func (s *Service) settled(j queue.Job, data []byte) {
	go func() {
		<-s.opened
		if s.audit == nil { // it could not be opened
			return
		}
		var (
			note   executor.Note
			result api.Result
		)
		if strictjson.Decode(j.Note, &note, strictjson.Options{}) != nil || strictjson.Decode(data, &result, strictjson.Options{}) != nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), step)
		defer cancel()
		s.admission.Done(j.ID)
		s.finished(ctx, j, &result, "")
		if result.Cause == queue.CauseKilled && note.Source != "" {
			if err := s.admission.Lost(ctx, j.Client, note.Source); err != nil {
				s.o.Log.Warn("a program that ended its executors is not slowed", "run", j.ID, "error", err)
			}
		}
	}()
}

// finished counts a run that has ended and writes it down.
func (s *Service) finished(ctx context.Context, j queue.Job, r *api.Result, language string) {
	s.metrics.Finished(r, language)
	e := telemetry.Entry{Kind: telemetry.EntryFinished, Client: j.Client, RunID: j.ID, Language: language, Verdict: string(r.Verdict)}
	if err := s.audit.Append(ctx, e); err != nil {
		s.o.Log.Warn("an entry is not in the audit log", "kind", e.Kind, "error", err)
	}
}
