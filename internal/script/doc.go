// Package script reads JavaScript outside of the engine: what a module imports
// and exports, what a script declares, where it awaits. The engine's C API knows
// no modules, so a module becomes the source of a function that is linked through
// objects, and a script with await at its top becomes one too.
//
// Only insertions are made, and what goes away becomes white space: the lines of
// a source are the lines of what is made of it. The engine remains the judge of
// what is a program: the parser takes all of the language and more, and what
// it takes too much the engine refuses. What the parser understands in another way
// than the engine is code of the same guest in either case.
//
// The parser is one pass without a tree. It uses memory in proportion to the
// source, time too, and a bounded stack.
package script
