package main

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/go-telegram/bot"
)

func TestSmallCallsCanBeWrittenAgain(t *testing.T) {
	for _, c := range []struct {
		name  string
		size  int
		again bool
	}{{"small", 100, true}, {"at the limit", maxReplay, true}, {"large", maxReplay + 1, false}} {
		t.Run(c.name, func(t *testing.T) {
			body := strings.Repeat("x", c.size)
			r, err := http.NewRequest(http.MethodPost, "http://127.0.0.1/", io.NopCloser(strings.NewReader(body)))
			if err != nil {
				t.Fatal(err)
			}
			if err := replayable(r); err != nil {
				t.Fatal(err)
			}
			if (r.GetBody != nil) != c.again || c.again && r.ContentLength != int64(c.size) {
				t.Errorf("can be written again: %t, length %d", r.GetBody != nil, r.ContentLength)
			}
			if got, err := io.ReadAll(r.Body); err != nil || string(got) != body {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
}

func TestErrorsOfPolls(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		is           error
		words        string
	}{
		{"conflict", `{"ok":false,"error_code":409,"description":"Conflict: x"}`, bot.ErrorConflict, "Conflict: x"},
		{"unauthorized", `{"ok":false,"error_code":401,"description":"Unauthorized"}`, bot.ErrorUnauthorized, ""},
		{"another", `{"ok":false,"error_code":418,"description":"x"}`, nil, "418 x"},
		{"no JSON", `<html>`, nil, "no JSON of the Bot API"},
		{"another shape", `{"ok":true,"result":{}}`, nil, "no JSON of the Bot API"},
	} {
		_, err := readUpdates(strings.NewReader(c.answer))
		if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestWordsHideTheTokenAndAreBounded(t *testing.T) {
	a := &api{token: "12345:secret"}
	got := a.words(errors.New("at /bot12345:secret/getMe: " + strings.Repeat("é", maxWords))).Error()
	if strings.Contains(got, "secret") || len(got) > maxWords || !strings.HasPrefix(got, "at /bot***/getMe") {
		t.Errorf("got %q", got)
	}
	if a.words(nil) != nil {
		t.Error("nil became an error")
	}
}
