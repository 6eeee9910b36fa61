// Package kubetest is an API server of Kubernetes for tests, with a node that runs Pods as containers of the Docker engine at DOCKER_HOST.
//
// Start with New. store.go has what the API server does with objects, serve.go the requests, and kubelet.go the node. It has the calls that
// plugins/kubernetes uses, and of each what matters to that: names, versions, owners, gates, preconditions and deletion. A Pod has the network
// of this machine and an address of its own on the loopback, which its programs have to keep to; NetworkPolicies are kept and not enforced.
package kubetest

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"

	"github.com/flynnhost/flynn/sdk/plugintest/platform"
)

// Namespace is the only namespace.
const Namespace = "flynn"

// Version is the version that the API server names.
const Version = "v1.35.4"

const token = "kubetest-token"

// Server is an API server and its node.
type Server struct {
	// Fail, if set, may answer a request with an error of package apierrors. Set it before the first request.
	Fail func(verb, resource string) error

	t       platform.TB
	address string
	dir     string
	store   *store
	node    *kubelet

	mu    sync.Mutex
	http  *httptest.Server
	calls map[string]bool // "verb resource"
}

// New starts a cluster that ends with the test.
func New(t platform.TB) *Server {
	t.Helper()
	dir, err := os.MkdirTemp("", "kubetest")
	if err != nil {
		t.Fatalf("make a folder: %v", err)
	}
	s := &Server{t: t, dir: dir, address: "127.0.0.1:0", calls: map[string]bool{}}
	s.node = newKubelet(dir)
	s.store = newStore(s.node)
	s.node.store = s.store
	s.Start()
	t.Cleanup(func() {
		s.Stop()
		s.node.end()
		_ = os.RemoveAll(dir)
	})
	return s
}

// Start lets the API server answer, at the same address each time.
func (s *Server) Start() {
	s.t.Helper()
	l, err := net.Listen("tcp", s.address)
	if err != nil {
		s.t.Fatalf("listen: %v", err)
		return
	}
	s.address = l.Addr().String()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.http = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	_ = s.http.Listener.Close()
	s.http.Listener = l
	s.http.StartTLS()
}

// Stop closes the API server and all its connections. The node goes on.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.http != nil {
		s.http.CloseClientConnections()
		s.http.Close()
		s.http = nil
	}
}

// NodeDies has the node do nothing any more that it is told.
func (s *Server) NodeDies() {
	s.node.mu.Lock()
	defer s.node.mu.Unlock()
	s.node.dead = true
}

// Kubeconfig writes a kubeconfig with all rights, and returns its path. Nothing answers at the server of its context "gone".
func (s *Server) Kubeconfig() string {
	s.t.Helper()
	s.mu.Lock()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw})
	s.mu.Unlock()
	path := filepath.Join(s.dir, "kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "https://%s", certificate-authority-data: %s}}, {name: gone, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: test, user: {token: %q}}]
contexts: [{name: test, context: {cluster: test, user: test}}, {name: gone, context: {cluster: gone, user: test}}]
current-context: test
`, s.address, base64.StdEncoding.EncodeToString(authority), token)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatalf("write a kubeconfig: %v", err)
	}
	return path
}

// Calls are the calls so far, each as "verb resource".
func (s *Server) Calls() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]bool{}
	for c := range s.calls {
		all[c] = true
	}
	return all
}

// Names returns the names of the objects of a resource, such as "pods".
func (s *Server) Names(resource string) []string { return s.store.names(resource) }
