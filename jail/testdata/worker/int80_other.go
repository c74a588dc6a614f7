//go:build !amd64

package main

func int80() string { return "not here" }
