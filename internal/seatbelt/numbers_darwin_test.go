package seatbelt

import "golang.org/x/sys/unix"

// The numbers that profiles have are the system's: an index other than 0 into an
// array of one does not compile.
var _ = [...]struct{}{
	0:  [1]struct{}{}[unix.SYS_SEMSYS-251],
	1:  [1]struct{}{}[unix.SYS_MSGSYS-252],
	2:  [1]struct{}{}[unix.SYS_SHMSYS-253],
	3:  [1]struct{}{}[unix.SYS_SEMCTL-254],
	4:  [1]struct{}{}[unix.SYS_SEMGET-255],
	5:  [1]struct{}{}[unix.SYS_SEMOP-256],
	6:  [1]struct{}{}[unix.SYS_MSGCTL-258],
	7:  [1]struct{}{}[unix.SYS_MSGGET-259],
	8:  [1]struct{}{}[unix.SYS_MSGSND-260],
	9:  [1]struct{}{}[unix.SYS_MSGRCV-261],
	10: [1]struct{}{}[unix.SYS_SHMAT-262],
	11: [1]struct{}{}[unix.SYS_SHMCTL-263],
	12: [1]struct{}{}[unix.SYS_SHMDT-264],
	13: [1]struct{}{}[unix.SYS_SHMGET-265],
	14: [1]struct{}{}[unix.SYS_GETHOSTUUID-142],
	15: [1]struct{}{}[unix.F_GETPATH-50],
}
