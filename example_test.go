package glovebox_test

import (
	"context"
	"errors"
	"fmt"
	"log"

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
