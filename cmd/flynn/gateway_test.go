package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// servedBy is the configuration of a host whose gateway is the handler.
func servedBy(t *testing.T, handler http.HandlerFunc) (path string) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(strings.Repeat("t", 64)), 0o600); err != nil {
		t.Fatal(err)
	}
	return listensAt(t, strings.TrimPrefix(server.URL, "http://"), token)
}

// listensAt is the configuration of a host with its gateway at an address, and the token in a file.
func listensAt(t *testing.T, address, token string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "flynn.toml")
	text := fmt.Sprintf("[store]\ndir = \"s\"\n[gateway]\nlisten = %q\ntoken_file = %q\n[routing]\ndefault_agent = \"main\"\n[agent_configs.main]\n",
		address, token)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
