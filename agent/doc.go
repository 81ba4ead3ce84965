// Package agent has what a program gives to code that a model wrote: tools, and
// what bounds them.
//
// A [Tool] is any function of Go, or one with a JSON Schema. [NewCatalog] checks
// tools and tells a model of them; a [ToolSet] is a catalog within one session.
// [HTTPFetch] makes a tool that fetches from listed places and no others.
package agent
