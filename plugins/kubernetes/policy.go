package main

import (
	"context"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/flynnhost/flynn/sdk/sandbox"
)

// policy makes the NetworkPolicy of an instance's Pods with a network, or puts it right. It binds only if the cluster's network enforces
// policies, which no API tells: the host's self-test finds out.
func (d *driver) policy(ctx context.Context, instance, network string, owner []meta.OwnerReference) error {
	wanted := &networking.NetworkPolicy{
		ObjectMeta: meta.ObjectMeta{Name: policyName(instance, network), Labels: of(instance), OwnerReferences: owner},
		Spec:       d.rules(instance, network),
	}
	policies := d.api.networkPolicies(d.settings.Namespace)
	is, err := policies.Get(ctx, wanted.Name, meta.GetOptions{})
	if apierrors.IsNotFound(err) {
		if _, err = policies.Create(ctx, wanted, meta.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
			return d.explain("create a NetworkPolicy", err)
		}
		is, err = policies.Get(ctx, wanted.Name, meta.GetOptions{})
	}
	if err != nil || equality.Semantic.DeepEqual(is.Spec, wanted.Spec) {
		return d.explain("create a NetworkPolicy", err)
	}
	is.Spec = wanted.Spec
	_, err = policies.Update(ctx, is, meta.UpdateOptions{})
	return d.explain("put NetworkPolicy "+wanted.Name+" right", err)
}

// notReachable are link-local addresses and the others at which clouds have their metadata services, which hand out credentials.
var notReachable = map[string][]string{
	"0.0.0.0/0": {"169.254.0.0/16", "100.100.100.200/32"},
	"::/0":      {"fe80::/10", "fd00:ec2::254/128", "fd20:ce::254/128"},
}

// rules let nobody in but the host, and nothing out of network none.
func (d *driver) rules(instance, network string) networking.NetworkPolicySpec {
	in := networking.NetworkPolicyIngressRule{
		Ports: []networking.NetworkPolicyPort{{Protocol: new(core.ProtocolTCP), Port: new(intstr.FromInt32(port))}},
	}
	for _, cidr := range d.settings.HostCIDRs {
		in.From = append(in.From, networking.NetworkPolicyPeer{IPBlock: &networking.IPBlock{CIDR: cidr}})
	}
	spec := networking.NetworkPolicySpec{
		PodSelector: meta.LabelSelector{MatchLabels: of(instance, labelNetwork, network)},
		PolicyTypes: []networking.PolicyType{networking.PolicyTypeIngress, networking.PolicyTypeEgress},
		Ingress:     []networking.NetworkPolicyIngressRule{in},
	}
	if network == sandbox.NetworkBridge {
		var out networking.NetworkPolicyEgressRule
		for _, all := range []string{"0.0.0.0/0", "::/0"} {
			out.To = append(out.To, networking.NetworkPolicyPeer{IPBlock: &networking.IPBlock{CIDR: all, Except: notReachable[all]}})
		}
		spec.Egress = []networking.NetworkPolicyEgressRule{out}
	}
	return spec
}
