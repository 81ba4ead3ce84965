package seatbelt

// Probe is one thing that a confined worker tries before it says that it is ready.
type Probe int

// The probes, in the order in which they are tried.
const (
	ReadFile    Probe = iota // open /etc/hosts
	WriteFile                // make a file in /private/tmp
	Exec                     // start /usr/bin/true
	Connect                  // make a socket
	ProcessInfo              // ask the kernel who the parent is
	ProcessArgs              // read the parent's arguments and environment
	Sysctl                   // read the host's name
	HostUUID                 // ask for the hardware's id by its system call
	IOKitUUID                // ask for it by the registry of drivers
	SysVSemaphores
	SysVMemory
	SysVQueues
	GetPath // ask where the file of an open descriptor lies
	probes
)

// probe says of a Probe what a breach of it is, and by which rules it is refused.
type probe struct {
	name string
	what string
	by   []string // operations of rules
}

var list = [probes]probe{
	ReadFile:       {"read-file", "a file of the host was opened", []string{"file-read*"}},
	WriteFile:      {"write-file", "a file was made", []string{"file-write*"}},
	Exec:           {"exec", "a program was started", []string{"process-exec*", "process-fork"}},
	Connect:        {"socket", "a socket was made", []string{"network*", "system-socket"}},
	ProcessInfo:    {"process-info", "the parent was looked at", []string{"process-info*"}},
	ProcessArgs:    {"process-args", "the parent's arguments and environment were read", []string{"sysctl*", "process-info*"}},
	Sysctl:         {"sysctl", "the host's name was read", []string{"sysctl*"}},
	HostUUID:       {"gethostuuid", "the hardware's id was read", []string{"syscall-unix"}},
	IOKitUUID:      {"iokit-uuid", "the hardware's id was read", []string{"iokit-get-properties", "iokit-open"}},
	SysVSemaphores: {"sysv-semaphores", "semaphores were made that outlive the worker", []string{"ipc-sysv*", "syscall-unix"}},
	SysVMemory:     {"sysv-memory", "memory was made that outlives the worker", []string{"ipc-sysv*", "syscall-unix"}},
	SysVQueues:     {"sysv-queues", "a queue was made that outlives the worker", []string{"ipc-sysv*", "syscall-unix"}},
	GetPath:        {"getpath", "a descriptor said where its file lies", []string{"system-fcntl"}},
}

// String is the probe's name, such as "getpath".
func (p Probe) String() string { return list[p].name }

// What says what happened if the probe was not refused.
func (p Probe) What() string { return list[p].what }

// Probes are all of them.
func Probes() []Probe {
	all := make([]Probe, probes)
	for i := range all {
		all[i] = Probe(i)
	}
	return all
}
