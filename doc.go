// Package glovebox runs programs that nobody vouches for, and survives them.
//
// A program runs in a cell: a process tree of its own in namespaces of its own,
// with an empty root, Landlock, a list of allowed system calls, control groups
// and no privilege, used once. Before its first instruction the cell has proved
// from inside that it is sealed, and the host has read the same from outside. How
// the program ends is a verdict, with evidence from the kernel and never from the
// program.
//
//	box, err := glovebox.New(glovebox.Options{})
//	…
//	defer box.Close()
//	result, err := box.Run(ctx, glovebox.Program{Language: "python", Source: "print(6 * 7)"})
//
// # What you get
//
// [New] finds out what this host can enforce and refuses unless all of it holds,
// with a *[SandboxError] that names the missing layer and the narrowest remedy.
// [CheckHost] tells the same without running anything.
//
// [Box.Run] runs a program to its end, [Box.Start] gives a [Running] that takes
// input, signals and Kill and yields events while it runs. An error means that
// Glovebox could not do its work; what became of the program is the Verdict of the
// [Result]: ok, error, timeout, memory_limit, output_limit, compile_error, denied,
// canceled, interrupted or setup_failed.
//
// A [Program] is a source or files in one of the known languages, or a command.
// C, C++, Go, Java and Rust are compiled first, in another cell with limits of its
// own ([Limits].Compile); what the compiler made is in /prog of the program's cell,
// read-only. [Box.Languages] tells what is installed, Options.Languages adds to it,
// [Box.Warm] fills the cache without which Go's compiler takes seconds.
//
// Files of the program lie in /box, where it starts. Those that Artifacts names
// come back in the Result when it has exited, as bytes with size, mode and digest;
// what is named and no plain file is refused with a reason.
//
// # What it cannot do
//
// All cells share the kernel of the host. Who finds a hole in the kernel that can
// be reached through the allowed calls is out; SECURITY.md says what is promised.
//
// A cell has no network. With Network "loopback" a server and a client inside one
// program can talk, and nothing else can be reached.
//
// A cell sees the host's programs: /usr but for what an administrator put there by
// hand (/usr/local, /usr/src), and some files of /etc. No other file of the host,
// unless [WithFolder] shows it. Nothing a program writes outlives its cell except
// its output and its artifacts.
// [UnownedFiles] lists what lies there and came with no package, a secret perhaps.
//
// Everything is bounded, and zero means the default, never unlimited: ten seconds,
// 256 MiB of memory with all files, 64 processes and threads, one core, 1 MiB of
// each output, 128 MiB of files. [Bounds] has floors and ceilings; what lies
// outside is refused by a *[FieldError] with the field's name, never rounded.
// Artifacts are at most 1000 files of 64 MiB together, and there are none of a
// program that was ended instead of exiting.
//
// AF_UNIX sockets cannot be made, but for the pair that socketpair makes. Python's
// multiprocessing.Manager, Listener and forkserver need them and fail; Process,
// Pool, Queue, Pipe and shared memory work. Refused as well: System V IPC, inotify,
// io_uring, debuggers, nested sandboxes, set-user-id programs, raw devices.
//
// The number of processors that the kernel tells through sched_getaffinity(2) is
// the host's; /proc shows the cell's share, and so do OMP_NUM_THREADS and
// GOMAXPROCS, which are set.
//
// Only one kind of cell is kept armed: the one that a program with default limits
// of files needs. Compilers' cells, other sizes of disk and the loopback network
// are made when they are asked for, which takes some milliseconds more.
//
// # Running many
//
// A Box is safe for concurrent use. Options.MaxCells programs run at once;
// further ones wait in order, at most Options.MaxWaiting, and one more gets
// [ErrBusy]. A Box costs two processes and some armed cells of about 1 MB; make one
// and keep it. After [Box.Close] nothing is left: no process, group, mount,
// descriptor or goroutine. The host is looked at again while a Box lives: when a
// file that cells show is replaced, idle cells are given up and new ones show the new
// one. A new glovebox-init is taken up by the next New.
//
// # The second program
//
// Cells are started by glovebox-init, which lies beside the program, or is named in
// Options.InitPath, or is the program itself if it calls [Init] first in main.
package glovebox
