package kubetest

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/version"
)

// maxBody bounds a request, in bytes.
const maxBody = 3 << 20

// serve answers a request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	answer, err := s.answer(r)
	code := http.StatusOK
	if err != nil {
		status := apierrors.APIStatus(nil)
		if !errors.As(err, &status) {
			status = apierrors.NewInternalError(err)
		}
		failure := status.Status()
		failure.APIVersion, failure.Kind, failure.Status = "v1", "Status", meta.StatusFailure
		answer, code = failure, int(failure.Code)
	} else if r.Method == http.MethodPost {
		code = http.StatusCreated
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer)
}

func (s *Server) answer(r *http.Request) (any, error) {
	if r.Header.Get("Authorization") != "Bearer "+token {
		return nil, apierrors.NewUnauthorized("Unauthorized")
	}
	if r.URL.Path == "/version" {
		return version.Info{Major: "1", Minor: "35", GitVersion: Version}, s.allow("get", "version")
	}
	rest, is := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/")
	if !is {
		rest, is = strings.CutPrefix(r.URL.Path, "/apis/networking.k8s.io/v1/namespaces/")
	}
	parts := strings.Split(rest, "/")
	if !is || len(parts) < 2 || len(parts) > 3 || kinds[parts[1]] == "" {
		return nil, apierrors.NewGenericServerResponse(404, "", resourceOf(""), "", "the server could not find the requested resource", 0, false)
	}
	resource, name := parts[1], ""
	if len(parts) == 3 {
		name = parts[2]
	}
	verb := verbOf(r.Method, name)
	if err := s.allow(verb, resource); err != nil {
		return nil, err
	}
	if parts[0] != Namespace {
		return nil, apierrors.NewNotFound(resourceOf("namespaces"), parts[0])
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return nil, err
	}
	return s.do(verb, resource, name, r, body)
}

func verbOf(method, name string) string {
	if method == http.MethodGet && name == "" {
		return "list"
	}
	return map[string]string{
		http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
	}[method]
}

// allow notes a call and may refuse it.
func (s *Server) allow(verb, resource string) error {
	s.mu.Lock()
	s.calls[verb+" "+resource] = true
	s.mu.Unlock()
	if s.Fail != nil {
		return s.Fail(verb, resource)
	}
	return nil
}

func (s *Server) do(verb, resource, name string, r *http.Request, body []byte) (any, error) {
	switch verb {
	case "get":
		return s.store.get(resource, name)
	case "list":
		return s.list(resource, r)
	case "delete":
		var how meta.DeleteOptions
		if len(body) > 0 {
			if err := json.Unmarshal(body, &how); err != nil {
				return nil, apierrors.NewBadRequest(err.Error())
			}
		}
		return meta.Status{Status: meta.StatusSuccess}, s.store.remove(resource, name, how)
	}
	var sent map[string]any
	if err := json.Unmarshal(body, &sent); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	o := &unstructured.Unstructured{Object: sent}
	switch verb {
	case "create":
		o.SetKind(kinds[resource])
		o.SetNamespace(Namespace)
		return s.store.create(resource, o)
	case "update":
		return s.store.update(resource, name, func(*object) (*object, error) { return o, nil })
	case "patch":
		if kind := r.Header.Get("Content-Type"); kind != "application/merge-patch+json" {
			return nil, apierrors.NewGenericServerResponse(415, "patch", resourceOf(resource), name, "no patches of type "+kind, 0, true)
		}
		return s.store.update(resource, name, func(old *object) (*object, error) {
			return &unstructured.Unstructured{Object: merge(old.Object, sent)}, nil
		})
	}
	return nil, apierrors.NewMethodNotSupported(resourceOf(resource), verb)
}

func (s *Server) list(resource string, r *http.Request) (any, error) {
	all, version, err := s.store.list(resource, r.URL.Query().Get("labelSelector"))
	if err != nil {
		return nil, err
	}
	list := map[string]any{"kind": kinds[resource] + "List", "apiVersion": "v1", "metadata": map[string]any{"resourceVersion": version}}
	items := make([]any, 0, len(all))
	for _, o := range all {
		if strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadataList") {
			o.Object = map[string]any{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": o.Object["metadata"]}
			list["kind"], list["apiVersion"] = "PartialObjectMetadataList", "meta.k8s.io/v1"
		}
		items = append(items, o.Object)
	}
	list["items"] = items
	return list, nil
}
