package main

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const manifests = "../../examples/cluster/kubernetes"

// readManifests returns the objects below a folder, by kind and name. Unknown fields are errors.
func readManifests(t *testing.T, folder string) map[string]meta.Object {
	t.Helper()
	all := map[string]meta.Object{}
	for _, file := range yamlsBelow(t, folder) {
		text, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range bytes.Split(text, []byte("\n---\n")) {
			var kind meta.TypeMeta
			if err := yaml.Unmarshal(one, &kind); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			o := map[string]meta.Object{
				"v1 Namespace": &core.Namespace{}, "v1 Service": &core.Service{}, "v1 ServiceAccount": &core.ServiceAccount{},
				"apps/v1 StatefulSet": &apps.StatefulSet{}, "policy/v1 PodDisruptionBudget": &policy.PodDisruptionBudget{},
				"networking.k8s.io/v1 NetworkPolicy": &networking.NetworkPolicy{}, "rbac.authorization.k8s.io/v1 Role": &rbac.Role{},
				"rbac.authorization.k8s.io/v1 RoleBinding": &rbac.RoleBinding{},
			}[kind.APIVersion+" "+kind.Kind]
			if o == nil {
				t.Fatalf("%s has a %s of %s, which this test does not know", file, kind.Kind, kind.APIVersion)
			}
			if err := yaml.UnmarshalStrict(one, o); err != nil {
				t.Errorf("%s, %s: %v", file, kind.Kind, err)
			}
			name := kind.Kind + " " + strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
			if all[name] != nil {
				t.Errorf("%s is there twice", name)
			}
			all[name] = o
		}
	}
	return all
}

// yamlsBelow returns the files with objects below a folder, all of which a kustomization names.
func yamlsBelow(t *testing.T, folder string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		text, err := os.ReadFile(filepath.Join(filepath.Dir(path), "kustomization.yaml"))
		if err != nil || filepath.Base(path) == "kustomization.yaml" {
			return err
		}
		if !bytes.Contains(text, []byte(d.Name())) {
			t.Errorf("%s is in no kustomization", path)
		}
		name, err := filepath.Rel(folder, path)
		files = append(files, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// The example of a cluster fits the API, gives its hosts the rights of role.yaml and no more, and has Pods that PodSecurity admits.
func TestClusterManifests(t *testing.T) {
	all := readManifests(t, manifests)
	want := readRole(t)
	role, ok := all["Role flynn-sandboxes/flynn"].(*rbac.Role)
	if !ok || !reflect.DeepEqual(role.Rules, want.Rules) {
		t.Errorf("the hosts' role is %+v, not that of role.yaml", role)
	}
	bound, ok := all["RoleBinding flynn-sandboxes/flynn"].(*rbac.RoleBinding)
	if !ok || len(bound.Subjects) != 1 || bound.Subjects[0].Namespace != "flynn" || all["ServiceAccount flynn/"+bound.Subjects[0].Name] == nil || bound.RoleRef.Name != role.Name {
		t.Errorf("the role is bound by %+v", bound)
	}
	for name, level := range map[string]string{"flynn": "restricted", "flynn-sandboxes": "baseline"} {
		if n, ok := all["Namespace "+name].(*core.Namespace); !ok || n.Labels["pod-security.kubernetes.io/enforce"] != level {
			t.Errorf("namespace %s is %+v, not %s", name, n, level)
		}
	}
	for _, name := range []string{"flynn", "postgres"} {
		set, ok := all["StatefulSet flynn/"+name].(*apps.StatefulSet)
		if !ok {
			t.Fatalf("there is no StatefulSet %s", name)
		}
		if why := unrestricted(set.Spec.Template.Spec); why != "" {
			t.Errorf("PodSecurity restricted does not admit %s: %s", name, why)
		}
		service, ok := all["Service flynn/"+set.Spec.ServiceName].(*core.Service)
		network, is := all["NetworkPolicy flynn/"+name].(*networking.NetworkPolicy)
		labels := set.Spec.Template.Labels
		if !ok || !is || !reflect.DeepEqual(service.Spec.Selector, labels) || !reflect.DeepEqual(network.Spec.PodSelector.MatchLabels, labels) || !reflect.DeepEqual(set.Spec.Selector.MatchLabels, labels) {
			t.Errorf("the labels of %s do not select its Pods: %+v, %+v", name, service, network)
		}
	}
	hosts := all["StatefulSet flynn/flynn"].(*apps.StatefulSet)
	budget, ok := all["PodDisruptionBudget flynn/flynn"].(*policy.PodDisruptionBudget)
	if !ok || !reflect.DeepEqual(budget.Spec.Selector.MatchLabels, hosts.Spec.Template.Labels) {
		t.Errorf("the budget is %+v", budget)
	}
	checkFolders(t, hosts)
	if len(all) != 12 {
		t.Errorf("there are %d objects: %q", len(all), slices.Sorted(maps.Keys(all)))
	}
}

// readRole returns the Role in role.yaml.
func readRole(t *testing.T) (role rbac.Role) {
	t.Helper()
	text, err := os.ReadFile("role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range bytes.Split(text, []byte("\n---\n")) {
		if !bytes.Contains(one, []byte("kind: Role\n")) {
			continue
		}
		if err := yaml.UnmarshalStrict(one, &role); err != nil {
			t.Fatal(err)
		}
	}
	return role
}

// checkFolders checks that the folders and variables of flynn.toml are those of the Pods.
func checkFolders(t *testing.T, hosts *apps.StatefulSet) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(manifests, "flynn.toml"))
	if err != nil {
		t.Fatal(err)
	}
	c := hosts.Spec.Template.Spec.Containers[0]
	claims := map[string]bool{}
	for _, v := range hosts.Spec.VolumeClaimTemplates {
		claims[v.Name] = true
	}
	stored := slices.IndexFunc(c.VolumeMounts, func(m core.VolumeMount) bool { return claims[m.Name] })
	if stored < 0 || !strings.Contains(string(text), `dir     = "`+c.VolumeMounts[stored].MountPath+`"`) {
		t.Errorf("[store] dir is on no volume that outlasts the Pod: %+v", c.VolumeMounts)
	}
	if len(c.Env) != 1 || c.Env[0].ValueFrom.FieldRef.FieldPath != "metadata.name" || !strings.Contains(string(text), `host_env = "`+c.Env[0].Name+`"`) {
		t.Errorf("the host has its name from %+v", c.Env)
	}
	readme, err := os.ReadFile(filepath.Join(manifests, "README.md"))
	for _, name := range []string{"FLYNN_STORE", "FLYNN_API_TOKEN", "POSTGRES_PASSWORD"} {
		if err != nil || !strings.Contains(string(readme), name+"=") {
			t.Errorf("README.md makes no %s (%v)", name, err)
		}
	}
}

// unrestricted returns why the level restricted of PodSecurity does not admit a Pod; empty if it does.
func unrestricted(p core.PodSpec) string {
	s := p.SecurityContext
	switch {
	case s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.RunAsUser == nil || *s.RunAsUser == 0:
		return "it may run as root"
	case s.SeccompProfile == nil || s.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault:
		return "it has no seccomp profile"
	case p.HostNetwork || p.HostPID || p.HostIPC:
		return "it has namespaces of the node"
	}
	for _, v := range p.Volumes {
		if v.EmptyDir == nil && v.ConfigMap == nil && v.Secret == nil {
			return "volume " + v.Name + " is neither empty nor a ConfigMap nor a Secret"
		}
	}
	for _, c := range slices.Concat(p.InitContainers, p.Containers) {
		s := c.SecurityContext
		if s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.Capabilities == nil ||
			!slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) || len(s.Capabilities.Add) > 0 || s.Privileged != nil && *s.Privileged {
			return "container " + c.Name + " may gain privileges"
		}
	}
	return ""
}
