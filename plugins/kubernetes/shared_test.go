package main

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/flynnhost/flynn/plugins/kubernetes/kubetest"
)

// A cluster has the same id by every way to it, and each cluster and namespace has another one.
func TestClusterOf(t *testing.T) {
	pem := func(text string) []byte {
		return []byte("-----BEGIN CERTIFICATE-----\n" + text + "\n-----END CERTIFICATE-----\n")
	}
	file := filepath.Join(t.TempDir(), "ca")
	if err := os.WriteFile(file, append([]byte("# the same\n"), pem("YWJj")...), 0o600); err != nil {
		t.Fatal(err)
	}
	of := func(to rest.Config, namespace string) string {
		t.Helper()
		id, err := clusterOf(&to, namespace)
		if err != nil || len(id) > 256 {
			t.Errorf("%q (%v)", id, err)
		}
		return id
	}
	one := rest.Config{Host: "https://a", TLSClientConfig: rest.TLSClientConfig{CAData: pem("YWJj")}}
	if got := of(rest.Config{Host: "https://b", TLSClientConfig: rest.TLSClientConfig{CAFile: file}}, "n"); got != of(one, "n") {
		t.Errorf("the other way it is %q", got)
	}
	for name, got := range map[string]string{
		"another namespace":  of(one, "m"),
		"another cluster":    of(rest.Config{Host: "https://a", TLSClientConfig: rest.TLSClientConfig{CAData: pem("YWJk")}}, "n"),
		"without an own CA":  of(rest.Config{Host: "https://a"}, "n"),
		"at another address": of(rest.Config{Host: "https://b"}, "n"),
	} {
		if got == of(one, "n") {
			t.Errorf("%s has the same: %q", name, got)
		}
	}
	if of(rest.Config{Host: "https://a"}, "n") == of(rest.Config{Host: "https://b"}, "n") {
		t.Error("two addresses without a CA have the same")
	}
	if _, err := clusterOf(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(t.TempDir(), "none")}}, kubetest.Namespace); err == nil {
		t.Error("a CA that is missing")
	}
}
