// Package redteam is a battery of attacks on the cells of Glovebox. Each attack
// is one file of text: what it claims, the layer that stops it, the program, what
// the kernel must answer, and a control. The control is the same program, byte
// for byte, in a cell that lacks exactly that layer; it must get through, or
// the attack proves nothing.
//
// Only what is embedded here is ever fired: no function of this package, and no
// type that it exports, takes a program, a layer to leave out, or a path of either. That is
// on purpose. A control runs with less than the whole sandbox, so every program
// of the battery is harmless where it succeeds: it reads and writes files that
// the runner made, connects to listeners that the runner opened, looks for processes
// that the runner started, and takes no more memory than is written in its file.
//
// Programs in C are compiled on the host that they are fired on, in a whole cell.
// A build with the tag redteam_precompiled embeds them compiled, each under the
// digest of its text, for hosts without a compiler; the package matrix does that.
package redteam
