// Package agent has what a program gives to code that a model wrote: tools, and
// what bounds them.
//
// [HTTPFetch] makes a tool that fetches from listed places and no others.
package agent
