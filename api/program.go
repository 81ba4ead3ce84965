// Package api holds the plain data of Glovebox: one struct is the Go API, the
// HTTP body, the WebSocket message and the queue message.
//
// Nothing here does any work beyond checking itself. Field names follow the
// project's contract and are stable; see [Version].
//
// Since one struct serves all, each field says in its tag "for" who may set it,
// by the names of the audiences with commas between them:
//
//	Profile string `json:"profile,omitempty" for:"library,operator"`
//
// A decoder of what comes from outside refuses every field that is not for the
// audience it serves; a field without the tag is for none of them.
package api

// Version is the value of "api_version" in every answer.
const Version = "v1"

// The audiences of the tag "for".
const (
	AudienceLibrary  = "library"  // Go code in the same process
	AudienceOperator = "operator" // configuration and the operator's own command
	AudienceClient   = "client"   // whoever calls over HTTP, WebSocket or a queue
	AudienceWorker   = "worker"   // frames from a sealed process
)

// Program is one piece of untrusted code and what it is given.
//
// Exactly one of Source, Files or Command names the code: Source and Files
// need Language, Command must not have it and may have Files beside it. The zero value is not a valid
// Program.
type Program struct {
	// Language is the name of an installed language ("python", "bash").
	Language string `json:"language,omitempty" for:"library,operator,client"`
	// Source is the text of a one-file program, at most 8 MiB.
	Source string `json:"source,omitempty" for:"library,operator,client"`
	// Files are the files of a program, placed below /box before it starts. The
	// first is the entry unless Entry names another. Together at most 8 MiB.
	Files []File `json:"files,omitempty" for:"library,operator,client"`
	// Entry is the name of the file that is run. Empty means the first one.
	Entry string `json:"entry,omitempty" for:"library,operator,client"`
	// Command is a raw argv that runs in the cell's root instead of a language.
	// A first element without a slash is looked up in the guest's PATH.
	Command []string `json:"command,omitempty" for:"library,operator,client"`
	// Args follow the program's own name.
	Args []string `json:"args,omitempty" for:"library,operator,client"`
	// Env is added to the guest's environment at its exec and never earlier.
	Env map[string]string `json:"env,omitempty" for:"library,operator,client"`
	// Stdin is what the guest reads on descriptor 0. None means end of file at once.
	Stdin []byte `json:"stdin,omitempty" for:"library,operator,client"`
	// Limits bound the run. Zero fields mean the language's defaults.
	Limits Limits `json:"limits,omitzero" for:"library,operator,client"`
	// Artifacts are patterns of files below /box that are given back after the
	// program has exited; see [CheckPattern]. At most 100.
	Artifacts []string `json:"artifacts,omitempty" for:"library,operator,client"`
	// Network is "none" (the default) or "loopback".
	Network string `json:"network,omitempty" for:"library,operator,client"`
	// Profile names what the cell may do. Empty means the language's own.
	Profile string `json:"profile,omitempty" for:"library,operator"`
	// Isolation is "process", the default and the only tier so far.
	Isolation string `json:"isolation,omitempty" for:"library,operator"`
}

// File is one file of a Program.
type File struct {
	// Name is relative to /box; see [CheckFileName].
	Name string `json:"name" for:"library,operator,client"`
	// Content is the text, or its base64 form when Encoding says so.
	Content string `json:"content" for:"library,operator,client"`
	// Encoding is "utf-8" (the default) or "base64".
	Encoding string `json:"encoding,omitempty" for:"library,operator,client"`
	// Mode is the permission bits; zero means 0644.
	Mode uint32 `json:"mode,omitempty" for:"library,operator,client"`
}

// Networks of a Program.
const (
	NetworkNone     = "none"
	NetworkLoopback = "loopback"
)

// IsolationProcess is the tier of one shared kernel.
const IsolationProcess = "process"
