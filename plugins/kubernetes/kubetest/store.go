package kubetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// kinds are the resources and their kinds.
var kinds = map[string]string{"pods": "Pod", "secrets": "Secret", "configmaps": "ConfigMap", "networkpolicies": "NetworkPolicy"}

type object = unstructured.Unstructured

// store keeps the objects by resource and name.
type store struct {
	node *kubelet

	mu      sync.Mutex
	all     map[string]map[string]*object
	version int
}

func newStore(node *kubelet) *store {
	st := &store{node: node, all: map[string]map[string]*object{}}
	for resource := range kinds {
		st.all[resource] = map[string]*object{}
	}
	return st
}

func resourceOf(resource string) schema.GroupResource {
	return schema.GroupResource{Resource: resource}
}

func (st *store) names(resource string) []string {
	st.mu.Lock()
	defer st.mu.Unlock()
	return slices.Sorted(maps.Keys(st.all[resource]))
}

func (st *store) get(resource, name string) (*object, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	o := st.all[resource][name]
	if o == nil {
		return nil, apierrors.NewNotFound(resourceOf(resource), name)
	}
	return o.DeepCopy(), nil
}

func (st *store) list(resource, selector string) (all []object, version string, err error) {
	wanted, err := labels.Parse(selector)
	if err != nil {
		return nil, "", apierrors.NewBadRequest(err.Error())
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(st.all[resource])) {
		if o := st.all[resource][name]; wanted.Matches(labels.Set(o.GetLabels())) {
			all = append(all, *o.DeepCopy())
		}
	}
	return all, strconv.Itoa(st.version), nil
}

// put stores a version of an object; the lock is held.
func (st *store) put(resource string, o *object) *object {
	st.version++
	o.SetResourceVersion(strconv.Itoa(st.version))
	st.all[resource][o.GetName()] = o
	if resource == "pods" {
		st.node.sees(o)
	}
	return o.DeepCopy()
}

var (
	validName  = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)
	validValue = regexp.MustCompile(`^([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$|^$`)
)

func invalid(format string, args ...any) error {
	return &apierrors.StatusError{ErrStatus: meta.Status{Code: 422, Reason: meta.StatusReasonInvalid, Message: fmt.Sprintf(format, args...)}}
}

func (st *store) create(resource string, o *object) (*object, error) {
	if !validName.MatchString(o.GetName()) {
		return nil, invalid("metadata.name: Invalid value")
	}
	for key, value := range o.GetLabels() {
		if !validValue.MatchString(value) {
			return nil, invalid("metadata.labels: Invalid value of %s", key)
		}
	}
	if resource == "configmaps" {
		size := 0
		data, _, _ := unstructured.NestedStringMap(o.Object, "binaryData")
		for _, text := range data {
			size += len(text) / 4 * 3
		}
		if size > 1<<20 {
			return nil, invalid("data: Too long: may not be more than 1048576 bytes")
		}
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.all[resource][o.GetName()] != nil {
		return nil, apierrors.NewAlreadyExists(resourceOf(resource), o.GetName())
	}
	o.SetUID(types.UID(fmt.Sprintf("%08d-0000-4000-8000-%012d", st.version, time.Now().UnixNano()%1e12)))
	o.SetCreationTimestamp(meta.Now())
	o.SetDeletionTimestamp(nil)
	delete(o.Object, "status")
	if resource == "pods" {
		_ = unstructured.SetNestedField(o.Object, "Pending", "status", "phase")
	}
	return st.put(resource, o), nil
}

// update replaces an object. Of a Pod only the metadata may change, and gates may go.
func (st *store) update(resource, name string, change func(old *object) (*object, error)) (*object, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	old := st.all[resource][name]
	if old == nil {
		return nil, apierrors.NewNotFound(resourceOf(resource), name)
	}
	next, err := change(old.DeepCopy())
	if err != nil {
		return nil, err
	}
	if v := next.GetResourceVersion(); v != "" && v != old.GetResourceVersion() {
		return nil, apierrors.NewConflict(resourceOf(resource), name, fmt.Errorf("the object has been modified"))
	}
	next.SetUID(old.GetUID())
	next.SetCreationTimestamp(old.GetCreationTimestamp())
	fixed := []string{"data", "binaryData", "immutable"}
	if immutable, _, _ := unstructured.NestedBool(old.Object, "immutable"); !immutable {
		fixed = nil
	}
	if resource == "pods" {
		fixed = []string{"spec"}
		gates, _, _ := unstructured.NestedSlice(next.Object, "spec", "schedulingGates")
		if before, _, _ := unstructured.NestedSlice(old.Object, "spec", "schedulingGates"); len(gates) < len(before) {
			unstructured.RemoveNestedField(old.Object, "spec", "schedulingGates")
			unstructured.RemoveNestedField(next.Object, "spec", "schedulingGates")
		}
		next.Object["status"] = old.Object["status"]
	}
	for _, field := range fixed {
		if !reflect.DeepEqual(next.Object[field], old.Object[field]) {
			return nil, invalid("%s: Forbidden: field is immutable", field)
		}
	}
	return st.put(resource, next), nil
}

// merge applies a JSON merge patch.
func merge(into, patch map[string]any) map[string]any {
	if into == nil {
		into = map[string]any{}
	}
	for key, value := range patch {
		inner, is := value.(map[string]any)
		switch {
		case value == nil:
			delete(into, key)
		case is:
			before, _ := into[key].(map[string]any)
			into[key] = merge(before, inner)
		default:
			into[key] = value
		}
	}
	return into
}

// remove deletes an object. A Pod that its node has lasts until that has ended it, unless the grace is zero.
func (st *store) remove(resource, name string, how meta.DeleteOptions) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	o := st.all[resource][name]
	if o == nil {
		return apierrors.NewNotFound(resourceOf(resource), name)
	}
	if p := how.Preconditions; p != nil && (p.UID != nil && *p.UID != o.GetUID() || p.ResourceVersion != nil && *p.ResourceVersion != o.GetResourceVersion()) {
		return apierrors.NewConflict(resourceOf(resource), name, fmt.Errorf("the preconditions do not hold"))
	}
	if resource == "pods" && st.node.has(o.GetUID()) && (how.GracePeriodSeconds == nil || *how.GracePeriodSeconds > 0) {
		if o.GetDeletionTimestamp() == nil {
			o.SetDeletionTimestamp(new(meta.Now()))
			st.put(resource, o)
		}
		return nil
	}
	st.drop(resource, o)
	return nil
}

// drop removes an object and all that it owns; the lock is held.
func (st *store) drop(resource string, o *object) {
	delete(st.all[resource], o.GetName())
	st.version++
	if resource == "pods" {
		st.node.ends(o.GetUID())
	}
	for other, all := range st.all {
		for _, owned := range all {
			if slices.ContainsFunc(owned.GetOwnerReferences(), func(r meta.OwnerReference) bool { return r.UID == o.GetUID() }) {
				st.drop(other, owned)
			}
		}
	}
}

// ended removes a Pod of the node whose processes are gone, if somebody has deleted it.
func (st *store) ended(name string, uid types.UID) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if o := st.all["pods"][name]; o != nil && o.GetUID() == uid && o.GetDeletionTimestamp() != nil {
		st.drop("pods", o)
	}
}

// status changes the status of a Pod, as its node does.
func (st *store) status(name string, uid types.UID, change func(*core.PodStatus)) {
	st.mu.Lock()
	defer st.mu.Unlock()
	o := st.all["pods"][name]
	if o == nil || o.GetUID() != uid {
		return
	}
	p := podOf(o)
	change(&p.Status)
	text, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&p.Status)
	if err == nil {
		o.Object["status"] = text
		st.put("pods", o)
	}
}

// podOf is the Pod of an object.
func podOf(o *object) (p core.Pod) {
	text, err := o.MarshalJSON()
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		panic(err) // it was a Pod when it came
	}
	return p
}

// content is the data of a Secret or ConfigMap; nil if there is none.
func (st *store) content(resource, name string) map[string][]byte {
	o, err := st.get(resource, name)
	if err != nil {
		return nil
	}
	var data struct{ Data, BinaryData map[string][]byte }
	text, err := o.MarshalJSON()
	if err != nil || json.Unmarshal(text, &data) != nil {
		return nil
	}
	if strings.HasPrefix(resource, "secret") {
		return data.Data
	}
	return data.BinaryData
}
