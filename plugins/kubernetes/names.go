package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/flynnhost/flynn/sdk/sandbox"
)

// Labels and annotations of what the plugin makes. Names and labels of the host are arbitrary text, which labels of Kubernetes cannot hold: they
// are in annotations, and labels have digests of them to select by.
const (
	labelManaged  = "app.kubernetes.io/managed-by"
	labelInstance = "flynn-instance"
	labelName     = "flynn-name"
	labelNetwork  = "flynn-network"
	labelPart     = "flynn-part"

	managed = "flynn"
	// The values of labelPart.
	partOwner = "instance"
	partCopy  = "copy"

	noteName     = "flynn.name"
	noteKey      = "flynn.key"
	noteLabels   = "flynn.labels"
	noteInstance = "flynn.instance"
	noteUsed     = "flynn.used"
)

// gate keeps a Pod from being scheduled until it is started.
const gate = "flynn.start"

// digest is short text for a label or a name.
func digest(parts ...string) string {
	sum := sha256.New()
	for _, p := range parts {
		sum.Write([]byte(p))
		sum.Write([]byte{0})
	}
	return hex.EncodeToString(sum.Sum(nil)[:10])
}

// podName is the name of the Pod with a key, by which a second creation meets the first.
func podName(instance, key string) string { return "flynn-" + digest(instance, key) }

// ownerName is the name of the ConfigMap that owns all that an instance has.
func ownerName(instance string) string { return "flynn-instance-" + digest(instance) }

func policyName(instance, network string) string { return "flynn-" + network + "-" + digest(instance) }

// of returns the labels of something of an instance.
func of(instance string, more ...string) map[string]string {
	all := map[string]string{labelManaged: managed, labelInstance: digest(instance)}
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

func selector(of map[string]string) meta.ListOptions {
	return meta.ListOptions{LabelSelector: labels.SelectorFromSet(of).String()}
}

// notes are the annotations of a container's Pod.
func notes(c sandbox.Container) (map[string]string, error) {
	text, err := json.Marshal(c.Labels)
	return map[string]string{noteName: c.Name, noteKey: c.Key, noteInstance: c.Labels[sandbox.LabelInstance], noteLabels: string(text)}, err
}

// hostLabels returns the labels that the host gave a Pod; nil if it is none of ours.
func hostLabels(p *core.Pod) (all map[string]string) {
	if p.Labels[labelManaged] != managed || json.Unmarshal([]byte(p.Annotations[noteLabels]), &all) != nil {
		return nil
	}
	return all
}

// validName also keeps ids and names from being paths of the API.
var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`)
