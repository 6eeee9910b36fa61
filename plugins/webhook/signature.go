package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The headers of Standard Webhooks.
const (
	headerID        = "webhook-id"
	headerTimestamp = "webhook-timestamp"
	headerSignature = "webhook-signature"
)

// tolerance is how far the clocks of both sides may be apart; a recorded request is of no use beyond it.
const tolerance = 5 * time.Minute

// sign returns the signature of a request: "v1," and the base64 of HMAC-SHA256 over "id.timestamp.body".
func sign(secret []byte, id, timestamp string, body []byte) string {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(id + "." + timestamp + "."))
	h.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// The reasons for which a request is not believed.
var (
	errNoID      = errors.New("webhook-id is missing or too long")
	errTimestamp = errors.New("webhook-timestamp is missing or too far from now")
	errSignature = errors.New("webhook-signature does not fit")
)

// maxSignatures bounds the signatures of one request; a sender has several while it changes its secret.
const maxSignatures = 8

// verify checks that a request was signed with the secret, not long ago, and returns its id.
func verify(secret []byte, header http.Header, body []byte, now time.Time) (id string, err error) {
	id = header.Get(headerID)
	if id == "" || len(id) > 200 {
		return "", errNoID
	}
	seconds, err := strconv.ParseInt(header.Get(headerTimestamp), 10, 64)
	if err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > tolerance {
		return "", errTimestamp
	}
	want := []byte(sign(secret, id, header.Get(headerTimestamp), body))
	list := strings.Fields(header.Get(headerSignature))
	for _, got := range list[:min(len(list), maxSignatures)] {
		if hmac.Equal([]byte(got), want) {
			return id, nil
		}
	}
	return "", errSignature
}
