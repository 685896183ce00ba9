// Writes through a nil pointer; GOTRACEBACK=crash makes the runtime abort after it has told so.
package main

type node struct{ value int }

//go:noinline
func store(n *node) { n.value = 7 }

func main() { store(nil) }
