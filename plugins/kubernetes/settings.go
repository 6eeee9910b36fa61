package main

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"net/netip"
	"os"
	"regexp"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/flynnhost/flynn/sdk/sandbox"
)

// settingsSchema is the JSON Schema by which the host checks the settings before it starts the plugin. A test generates it from settings.
//
//go:embed settings.schema.json
var settingsSchema []byte

// settings are the keys of [drivers.NAME] that this plugin knows.
type settings struct {
	Kubeconfig string `json:"kubeconfig" doc:"The path of a kubeconfig; empty in a Pod of the cluster, whose ServiceAccount is used then."`
	Context    string `json:"context" doc:"The context of the kubeconfig; by default its current one."`
	Namespace  string `json:"namespace" doc:"The namespace of the Pods." default:"flynn"`
	InitImage  string `json:"init_image" doc:"The image with sh, cat, mkdir, ln and chmod that prepares a Pod; by default the sandbox's own."`

	Runtimes         []string          `json:"runtimes" doc:"The RuntimeClasses that [sandbox] may ask for, such as gvisor."`
	HostCIDRs        []string          `json:"host_cidrs" doc:"The address ranges from which Flynn connects to sandboxes; by default any."`
	NodeSelector     map[string]string `json:"node_selector" doc:"The labels of the nodes for sandboxes."`
	ImagePullSecrets []string          `json:"image_pull_secrets" doc:"The Secrets of the namespace with which nodes pull images."`
	UserNamespaces   bool              `json:"user_namespaces" doc:"Give every Pod a user namespace of its own, which the nodes have to support."`
	PodPidsLimit     int64             `json:"pod_pids_limit" doc:"The podPidsLimit of the kubelets: the processes and threads of each Pod. Without it no limit is claimed."`
	CPURequest       float64           `json:"cpu_request" doc:"The CPU cores that a Pod reserves; by default as many as it may use."`
	DiskMiB          int64             `json:"disk_mib" doc:"The size in MiB of a workspace for which [sandbox] sets no limit." default:"10240"`
}

var (
	validDNS   = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
	validLabel = regexp.MustCompile(`^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$`)
	validValue = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$`)
)

func newSettings(c sandbox.Config) (settings, error) {
	s := settings{Namespace: "flynn", DiskMiB: 10240}
	if err := c.Decode(&s); err != nil {
		return s, err
	}
	return s, s.check()
}

func (s settings) check() error {
	var errs sandbox.FieldErrors
	names := func(key string, all []string) {
		for i, name := range all {
			errs.AddIf(!validDNS.MatchString(name), fmt.Sprintf("%s.%d", key, i), "%q is not a name of Kubernetes", name)
		}
	}
	names("namespace", []string{s.Namespace})
	names("runtimes", s.Runtimes)
	names("image_pull_secrets", s.ImagePullSecrets)
	for i, cidr := range s.HostCIDRs {
		_, err := netip.ParsePrefix(cidr)
		errs.AddIf(err != nil, fmt.Sprintf("host_cidrs.%d", i), "%q is not an address range such as 10.0.0.0/8", cidr)
	}
	for name, value := range s.NodeSelector {
		errs.AddIf(!validLabel.MatchString(name) || !validValue.MatchString(value), "node_selector", "%q = %q is not a label of Kubernetes", name, value)
	}
	errs.AddIf(s.Context != "" && s.Kubeconfig == "", "context", "write kubeconfig beside it")
	errs.AddIf(s.PodPidsLimit < 0, "pod_pids_limit", "must not be negative")
	errs.AddIf(s.CPURequest < 0 || s.CPURequest > 1024, "cpu_request", "must be 0 to 1024")
	errs.AddIf(s.DiskMiB < 1 || s.DiskMiB > 1<<24, "disk_mib", "must be 1 to 16777216")
	return errs.Err()
}

// maxCalls bounds the calls to the API server per second. It has limits of its own, which it holds fairly.
const maxCalls = 100

// connection returns the way to the API server. Errors do not quote the kubeconfig, which has secrets.
func (s settings) connection() (*rest.Config, error) {
	c, err := s.load()
	if err != nil {
		return nil, err
	}
	c.UserAgent, c.QPS, c.Burst, c.WarningHandler = "flynn/"+release, maxCalls, 2*maxCalls, rest.NoWarnings{}
	c.ContentType, c.AcceptContentTypes = "application/json", "application/json"
	return c, nil
}

func (s settings) load() (*rest.Config, error) {
	if s.Kubeconfig == "" {
		c, err := rest.InClusterConfig()
		if err != nil {
			return nil, sandbox.FieldErrors{{Path: "kubeconfig", Message: "write the path of a kubeconfig, because this process does not run in a Pod: " + err.Error()}}
		}
		return c, nil
	}
	if _, err := os.ReadFile(s.Kubeconfig); err != nil {
		return nil, sandbox.FieldErrors{{Path: "kubeconfig", Message: err.Error() + ": the plugin reads it if read in its [drivers] table has it, too"}}
	}
	c, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: s.Kubeconfig}, &clientcmd.ConfigOverrides{CurrentContext: s.Context}).ClientConfig()
	if err != nil {
		return nil, sandbox.FieldErrors{{Path: "kubeconfig", Message: fmt.Sprintf(
			"%s is not a kubeconfig with context %q: try kubectl --kubeconfig %[1]s cluster-info", s.Kubeconfig, s.Context)}}
	}
	return c, nil
}

// clusterOf returns what distinguishes a namespace of a cluster from all others, however a host reaches it: the certificates that the API server's
// is verified by. With those of the system it is the address.
func clusterOf(to *rest.Config, namespace string) (string, error) {
	trusted := to.CAData
	if len(trusted) == 0 && to.CAFile != "" {
		var err error
		if trusted, err = os.ReadFile(to.CAFile); err != nil {
			return "", err
		}
	}
	sum := sha256.New()
	if len(trusted) == 0 {
		sum.Write([]byte(to.Host))
	}
	for block, rest := pem.Decode(trusted); block != nil; block, rest = pem.Decode(rest) {
		sum.Write(block.Bytes)
	}
	return "kubernetes " + hex.EncodeToString(sum.Sum(nil)) + " " + namespace, nil
}
