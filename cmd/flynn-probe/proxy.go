//go:build linux

package main

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"
)

// ask ADDRESS BASE64 sends a request to a proxy unchanged. It holds if the proxy refuses it as malformed or by its rules; that
// the proxy tried and failed is not a refusal.
func ask(args []string) (answer, error) {
	if len(args) != 2 {
		return answer{}, errors.New("needs ADDRESS BASE64")
	}
	if err := onlyLoopback(); err != nil {
		return answer{}, err
	}
	text, err := base64.StdEncoding.DecodeString(args[1])
	if err != nil {
		return answer{}, err
	}
	conn, err := net.DialTimeout("tcp", args[0], patience)
	if err != nil {
		return answer{}, fmt.Errorf("there is no proxy: %w", err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * patience))
	if _, err := conn.Write(text); err != nil {
		return answer{}, err
	}
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return answer{}, fmt.Errorf("the proxy does not answer: %w", err)
	}
	defer r.Body.Close()
	if slices.Contains([]int{http.StatusBadRequest, http.StatusForbidden, http.StatusNotImplemented, http.StatusHTTPVersionNotSupported}, r.StatusCode) {
		return held("the proxy answers %s", r.Status), nil
	}
	return breach("the proxy answers %s", r.Status), nil
}
