// Kubernetes makes Flynn's sandboxes as plain Pods.
//
// Start with driver.go, the driver; create.go makes a Pod and what it refers to, pod.go describes it, copies.go and maps.go carry the host's
// files into it, and life.go starts, finds, lists and removes it. names.go has the names and labels by which everything is found again: the process keeps
// nothing. kubetest is an API server for tests, which runs Pods with Docker.
//
// It makes no Deployments, needs no controller of its own, and touches only what has its labels.
package main

import "github.com/flynnhost/flynn/sdk/sandbox"

func main() { sandbox.Main(&driver{}) }
