package main

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/glovebox-dev/glovebox/internal/jsc/library"
	"github.com/glovebox-dev/glovebox/internal/supply"
)

// engine compares the engine of this host with the newest stable release. What
// cannot be asked is said and counts as nothing, neither passed nor failed. With
// fail, an engine that is not the newest is an error.
func engine(fail bool) error {
	lib, err := library.Find()
	if err != nil {
		return err
	}
	text, err := library.Release(lib.Path)
	if err != nil {
		return err
	}
	here, err := supply.ParseEngineRelease(text)
	if err != nil {
		return err
	}
	fmt.Printf("this host: WebKitGTK %v, %s, build id %s\n", here, lib.Soname, lib.BuildID)
	newest, from, err := supply.NewestEngine(http.DefaultClient, supply.EngineSources)
	if err != nil {
		fmt.Println("not asked:", err)
	}
	if from == "" {
		fmt.Println("no list of releases can be had, so NOTHING WAS COMPARED")
		fmt.Println("0 passed, 0 failed")
		return nil
	}
	fmt.Printf("newest stable: WebKitGTK %v, by %s\n", newest, from)
	if here.Compare(newest) >= 0 {
		fmt.Println("1 passed, 0 failed")
		return nil
	}
	fmt.Println("A NEWER ENGINE IS OUT: releases of WebKitGTK mend holes of the engine; install it when the system has it, and run the tests")
	if fail {
		fmt.Println("0 passed, 1 failed")
		return errors.New("the engine is not the newest")
	}
	fmt.Println("0 passed, 0 failed")
	return nil
}
