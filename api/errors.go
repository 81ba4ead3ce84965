package api

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// FieldError is bad input: one field of a Program, its value and what is
// allowed.
type FieldError struct {
	Field string `json:"field" for:"library"`
	Value any    `json:"value,omitempty" for:"library"`
	// Reason says what is wrong, and the bounds where there are any.
	Reason string `json:"reason" for:"library"`
}

// Error is one line: the field, the value, if there is one, and the reason. Text
// that could not be told from the rest of the line is in quotes.
func (e *FieldError) Error() string {
	if e.Value == nil {
		return fmt.Sprintf("%s: %s", e.Field, e.Reason)
	}
	value := fmt.Sprint(e.Value)
	if value == "" || strings.TrimSpace(value) != value || strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsPrint(r) }) {
		value = strconv.Quote(value)
	}
	return fmt.Sprintf("%s: %s: %s", e.Field, value, e.Reason)
}

// Errors that mean Glovebox could not do its work.
var (
	ErrSandboxUnavailable = errors.New("the sandbox is not available")
	ErrBusy               = errors.New("every cell is in use")
	ErrClosed             = errors.New("the Box is closed")
)

// SandboxError wraps [ErrSandboxUnavailable] and carries the Status that says
// which layers are missing and how to mend them.
type SandboxError struct {
	Status Status `json:"status" for:"library"`
	// Reason is one sentence naming the first missing layer and its remedy.
	Reason string `json:"reason" for:"library"`
}

func (e *SandboxError) Error() string { return ErrSandboxUnavailable.Error() + ": " + e.Reason }

// Unwrap makes errors.Is(err, ErrSandboxUnavailable) true.
func (e *SandboxError) Unwrap() error { return ErrSandboxUnavailable }
