package glovebox_test

import (
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
)

// A product with more folders than the run may have files is the source's doing:
// it is told as such, as one with more files is, and never as a failure of
// Glovebox. The same number fits where it is allowed.
func TestProductOfFolders(t *testing.T) {
	p := glovebox.Program{Language: "java", Files: []glovebox.File{
		{Name: "Main.java", Content: "public class Main { public static void main(String[] a) { System.out.print(new p.a.b.c.d.e.f.g.C()); } }\n"},
		{Name: "C.java", Content: "package p.a.b.c.d.e.f.g; public class C { public String toString() { return \"deep\"; } }\n"},
		{Name: "D.java", Content: "package q.a.b.c.d.e.f.g; class D {}\n"},
	}}
	p.Limits.DiskFiles = 21 // three sources, three classes, sixteen folders are one more
	r := run(t, box(t), p)
	if want := "the compiler's product and the files are 22 with their directories, more than limits.disk_files, 21"; r.Verdict != api.CompileError || r.Message != want {
		t.Errorf("%s %q, want %q", r.Verdict, r.Message, want)
	}
	p.Limits.DiskFiles = 22
	if r := run(t, box(t), p); r.Verdict != api.OK || r.Stdout != "deep" {
		t.Errorf("%s %q %q", r.Verdict, r.Stdout, r.Stderr)
	}
}
