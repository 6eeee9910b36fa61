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

// ask ADDRESS BASE64 sends a request to a proxy as it is, and wants it refused by its wording or by the proxy's rules. That
// the proxy tried and failed is no refusal.
func ask(args []string) (answer, error) {
	if len(args) != 2 {
		return answer{}, errors.New("want ADDRESS BASE64")
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
		return answer{}, fmt.Errorf("the proxy says nothing: %w", err)
	}
	defer r.Body.Close()
	if slices.Contains([]int{http.StatusBadRequest, http.StatusForbidden, http.StatusNotImplemented, http.StatusHTTPVersionNotSupported}, r.StatusCode) {
		return held("the proxy answers %s", r.Status), nil
	}
	return breach("the proxy answers %s", r.Status), nil
}
