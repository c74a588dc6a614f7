//go:build !linux

package main

// takeName does nothing here.
func takeName() {}
