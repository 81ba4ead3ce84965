package main

import ("fmt";"os")

func main() { b,_ := os.ReadFile("/proc/self/cgroup"); fmt.Print(string(b)); b,_ = os.ReadFile("/proc/self/mountinfo"); fmt.Print(string(b)); fmt.Println(os.Getuid(), os.Args) }
