package glovebox_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// initPath is where these examples have their glovebox-init. A program that has
// it beside itself, or calls glovebox.Init, leaves Options.InitPath empty.
func initPath() string { return testenv.Init() }

// The shortest way: one program, one result.
func ExampleBox_Run() {
	box, err := glovebox.New(glovebox.Options{InitPath: initPath()})
	if err != nil {
		log.Fatal(err) // says which layer is missing and how to mend it
	}
	defer box.Close()

	result, err := box.Run(context.Background(), glovebox.Program{
		Language: "python",
		Source:   "print(6 * 7)",
	})
	if err != nil {
		log.Fatal(err) // Glovebox could not do its work
	}
	fmt.Println(result.Verdict, result.Stdout)
	// Output: ok 42
}

// How a program ends is its verdict. Only what is wrong with the Program itself
// is an error, and it names the field.
func ExampleBox_Run_verdicts() {
	box, err := glovebox.New(glovebox.Options{InitPath: initPath()})
	if err != nil {
		log.Fatal(err)
	}
	defer box.Close()

	for _, p := range []glovebox.Program{
		{Command: []string{"sh", "-c", "exit 3"}},
		{Command: []string{"sleep", "60"}, Limits: glovebox.Limits{WallMS: 100}},
		{Command: []string{"yes"}, Limits: glovebox.Limits{StdoutBytes: 1000}},
		{Command: []string{"true"}, Limits: glovebox.Limits{WallMS: 1}},
	} {
		result, err := box.Run(context.Background(), p)
		if field := (*glovebox.FieldError)(nil); errors.As(err, &field) {
			fmt.Println(field.Field, "is refused")
			continue
		} else if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s %q\n", result.Verdict, result.Cause)
	}
	// Output:
	// error ""
	// timeout "wall"
	// output_limit "stdout"
	// limits.wall_ms is refused
}

// Output as it comes, and a second file beside a command.
func ExampleBox_Start() {
	box, err := glovebox.New(glovebox.Options{InitPath: initPath()})
	if err != nil {
		log.Fatal(err)
	}
	defer box.Close()

	running, err := box.Start(context.Background(), glovebox.Program{
		Command: []string{"sort", "fruit.txt"},
		Files:   []glovebox.File{{Name: "fruit.txt", Content: "pear\napple\n"}},
	}, glovebox.WithEvents(func(e glovebox.Event) {
		if e.Type == "chunk" {
			fmt.Print(e.Data)
		}
	}))
	if err != nil {
		log.Fatal(err)
	}
	result, err := running.Wait()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Verdict)
	// Output:
	// apple
	// pear
	// ok
}

// A compiled program that takes files and gives one back.
func ExampleBox_Run_artifacts() {
	box, err := glovebox.New(glovebox.Options{InitPath: initPath()})
	if err != nil {
		log.Fatal(err)
	}
	defer box.Close()

	result, err := box.Run(context.Background(), glovebox.Program{
		Language: "c",
		Files: []glovebox.File{
			{Name: "main.c", Content: "#include <stdio.h>\n#include \"greet.h\"\nint main(void) { fputs(GREETING, fopen(\"out.txt\", \"w\")); return 0; }\n"},
			{Name: "greet.h", Content: "#define GREETING \"hello\"\n"},
		},
		Artifacts: []string{"*.txt", "missing.png"},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Verdict, "compiler's exit status", *result.Compile.ExitCode)
	for _, a := range result.Artifacts {
		fmt.Printf("%s: %q, %d bytes\n", a.Name, a.Content, a.Size)
	}
	for _, a := range result.RefusedArtifacts {
		fmt.Printf("%s: %s\n", a.Name, a.Reason)
	}
	// Output:
	// ok compiler's exit status 0
	// out.txt: "hello", 5 bytes
	// missing.png: there is no such file
}

// A conversation with a program that runs.
func ExampleBox_Start_conversation() {
	box, err := glovebox.New(glovebox.Options{InitPath: initPath()})
	if err != nil {
		log.Fatal(err)
	}
	defer box.Close()

	running, err := box.Start(context.Background(), glovebox.Program{
		Language: "python",
		Source:   "name = input()\nprint('hello,', name, flush=True)\nimport time\ntime.sleep(60)",
	}, glovebox.WithStdinPipe(), glovebox.WithEventStream())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Fprintln(running.Stdin(), "world")
	for event := range running.Events() {
		switch event.Type {
		case "chunk":
			fmt.Print(event.Data)
			_ = running.Signal(os.Kill) // it has said what we wanted
		case "finished":
			fmt.Println(event.Result.Verdict, event.Result.Signal)
		}
	}
	// Output:
	// hello, world
	// error SIGKILL
}

// A folder of the host, for one program and to be read only.
func ExampleWithFolder() {
	box, err := glovebox.New(glovebox.Options{InitPath: initPath()})
	if err != nil {
		log.Fatal(err)
	}
	defer box.Close()

	result, err := box.Run(context.Background(), glovebox.Program{Command: []string{"ls", "/data"}},
		glovebox.WithFolder("/usr/share/base-passwd", "/data"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(result.Stdout)
	// Output:
	// group.master
	// passwd.master
}
