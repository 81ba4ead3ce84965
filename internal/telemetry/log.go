package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

const (
	// maxSentence is how many characters of a message or an error are logged.
	maxSentence = 1024
	maxGroups   = 8
	maxMembers  = 32
)

// Guard is a handler before another one, through which all logs of a service go: every
// text in them, whoever worded it, is [Clean] (messages and errors have 1,024
// characters), and so one record is one line whatever the handler behind makes of it.
// Keys of attributes are the program's own.
func Guard(next slog.Handler) slog.Handler { return guard{next} }

type guard struct{ next slog.Handler }

// Enabled is the next handler's.
func (g guard) Enabled(ctx context.Context, l slog.Level) bool { return g.next.Enabled(ctx, l) }

// WithGroup is the next handler's.
func (g guard) WithGroup(name string) slog.Handler { return guard{g.next.WithGroup(name)} }

// WithAttrs cleans the attributes.
func (g guard) WithAttrs(attrs []slog.Attr) slog.Handler {
	return guard{g.next.WithAttrs(cleanAttrs(attrs, 0))}
}

// Handle cleans the record and hands it on.
func (g guard) Handle(ctx context.Context, r slog.Record) error {
	out := slog.NewRecord(r.Time, r.Level, clean(r.Message, maxSentence), r.PC)
	n := 0
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(cleanAttr(a, 0))
		n++
		return n < maxMembers
	})
	return g.next.Handle(ctx, out)
}

func cleanAttrs(attrs []slog.Attr, depth int) []slog.Attr {
	out := make([]slog.Attr, 0, min(len(attrs), maxMembers))
	for i, a := range attrs {
		if i == maxMembers {
			break
		}
		out = append(out, cleanAttr(a, depth))
	}
	return out
}

// cleanAttr cleans what has a text in it. A value of a type of its own becomes text:
// the next handler would look into it.
func cleanAttr(a slog.Attr, depth int) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		v = slog.StringValue(clean(v.String(), MaxText))
	case slog.KindGroup:
		if depth >= maxGroups {
			return slog.String(a.Key, "(too deep)")
		}
		v = slog.GroupValue(cleanAttrs(v.Group(), depth+1)...)
	case slog.KindAny:
		switch x := v.Any().(type) {
		case nil:
		case error:
			v = slog.StringValue(clean(x.Error(), maxSentence))
		default:
			v = slog.StringValue(clean(fmt.Sprint(x), maxSentence))
		}
	}
	return slog.Attr{Key: clean(a.Key, MaxText), Value: v}
}

// Request is what is logged of a request: no path, no query, no header, no body, no
// address.
type Request struct {
	ID     string // made by the service
	Route  string // the pattern
	Client string // the token that stands for the client
	Status int
	// Code is the refusal's, "" for none.
	Code           string
	Took           time.Duration
	Received, Sent int64 // bytes of the bodies
}

// LogRequest logs a request that was answered: at the level Warn from status 500 on, at
// Info else. The texts go through [Guard], whoever made the logger.
func LogRequest(ctx context.Context, l *slog.Logger, r Request) {
	if _, ok := l.Handler().(guard); !ok {
		l = slog.New(Guard(l.Handler()))
	}
	level := slog.LevelInfo
	if r.Status >= 500 {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{
		slog.String("request", r.ID), slog.String("route", r.Route), slog.Int("status", r.Status),
		slog.Float64("ms", float64(r.Took.Microseconds())/1000), slog.String("client", r.Client),
		slog.Int64("received", r.Received), slog.Int64("sent", r.Sent),
	}
	if r.Code != "" {
		attrs = append(attrs, slog.String("code", r.Code))
	}
	l.LogAttrs(ctx, level, "request", attrs...)
}
