package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/flynnhost/flynn/plugins/kubernetes/kubetest"
	"github.com/flynnhost/flynn/sdk/plugintest/rude"
	"github.com/flynnhost/flynn/sdk/sandbox"
)

// TestAPIErrors: each failure of the API server is an error that the host understands, with the next step, and without the secret.
func TestAPIErrors(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	refused := errors.New(`User "system:serviceaccount:flynn:x" cannot create resource "pods" in API group "" in the namespace "flynn"`)
	for name, c := range map[string]struct {
		fails error
		is    error
		says  string
	}{
		"no right":     {apierrors.NewForbidden(pods, "", refused), nil, "role.yaml"},
		"quota":        {apierrors.NewForbidden(pods, "p", errors.New("exceeded quota: small, requested: pods=1, used: pods=3, limited: pods=3")), nil, "exceeded quota: small"},
		"PodSecurity":  {apierrors.NewForbidden(pods, "p", errors.New(`violates PodSecurity "restricted:latest": runAsUser=0`)), nil, "violates PodSecurity"},
		"credentials":  {apierrors.NewUnauthorized("Unauthorized"), nil, "renew"},
		"namespace":    {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "flynn"), nil, "create it with role.yaml"},
		"busy":         {apierrors.NewTooManyRequests("later", 0), sandbox.ErrUnavailable, "the API server at"},
		"internal":     {apierrors.NewInternalError(errors.New("etcdserver: no leader")), sandbox.ErrUnavailable, "etcdserver"},
		"maintenance":  {apierrors.NewServiceUnavailable("apiserver is shutting down"), sandbox.ErrUnavailable, "shutting down"},
		"rude":         {apierrors.NewForbidden(pods, "p", errors.New(rudeText()+strings.Repeat("\x1b[31mx\n", 10_000))), nil, "forbidden"},
		"not accepted": {&apierrors.StatusError{ErrStatus: meta.Status{Code: 422, Reason: meta.StatusReasonInvalid, Message: "spec.sysctls: forbidden sysctl"}}, nil, "sysctl"},
	} {
		t.Run(name, func(t *testing.T) {
			s := kubetest.New(t)
			s.Fail = func(verb, resource string) error {
				if verb == "create" && resource == "pods" {
					return c.fails
				}
				return nil
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // the machine may have other work
			defer cancel()
			_, err := connected(t, s, nil).Create(ctx, wanted(t, "k"))
			switch {
			case err == nil, c.is != nil && !errors.Is(err, c.is), !strings.Contains(err.Error(), c.says):
				t.Errorf("%v, want %q", err, c.says)
			case len(err.Error()) > 1000, strings.ContainsAny(err.Error(), "\n\x1b"), strings.Contains(err.Error(), "the secret"):
				t.Errorf("%.2000q", err)
			}
			if left := s.Names("secrets"); len(left) > 0 {
				t.Errorf("left %q", left)
			}
		})
	}
}

// TestNoSecretNoPod: a Pod whose Secret cannot be made is removed, and the error has no secret.
func TestNoSecretNoPod(t *testing.T) {
	s := kubetest.New(t)
	s.Fail = func(verb, resource string) error {
		if verb == "create" && resource == "secrets" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", errors.New(`User "x" cannot create resource "secrets"`))
		}
		return nil
	}
	_, err := connected(t, s, nil).Create(t.Context(), wanted(t, "k"))
	if err == nil || !strings.Contains(err.Error(), "role.yaml") || strings.Contains(err.Error(), "the secret") || len(s.Names("pods")) != 0 {
		t.Errorf("%v, left %q", err, s.Names("pods"))
	}
}

// TestUnavailable: a cluster that does not answer is said to be so by every call, and works again when it is back.
func TestUnavailable(t *testing.T) {
	s := kubetest.New(t)
	d := connected(t, s, nil)
	id, err := d.Create(t.Context(), wanted(t, "k"))
	if err != nil {
		t.Fatal(err)
	}
	s.Stop()
	_, capable := d.Capabilities(t.Context())
	_, created := d.Create(t.Context(), wanted(t, "k2"))
	_, listed := d.List(t.Context(), "one")
	_, found := d.Endpoint(t.Context(), id)
	for _, err := range []error{capable, created, listed, found, d.Start(t.Context(), id), d.Remove(t.Context(), id)} {
		if !errors.Is(err, sandbox.ErrUnavailable) || !strings.Contains(err.Error(), "https://127.0.0.1") {
			t.Errorf("%v", err)
		}
	}
	s.Start()
	if has, err := d.Capabilities(t.Context()); err != nil || has.Engine != "Kubernetes "+kubetest.Version || len(has.Lacks) != 2 {
		t.Errorf("%+v, %v", has, err)
	}
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	<-short.Done()
	if _, err := d.List(short, "one"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without time: %v", err)
	}
}

func rudeText() (all string) {
	for _, v := range rude.Texts() {
		all += v.Text
	}
	return all
}
