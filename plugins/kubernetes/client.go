package main

import (
	"errors"
	"net/http"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
)

// client makes the calls for the four kinds of objects that the driver has. The clients that Kubernetes generates make the same ones, but each
// of them has the objects of all groups linked in, which are most of the program then.
type client struct {
	core, network rest.Interface
	parameters    runtime.ParameterCodec
}

func newClient(to *rest.Config) (*client, error) {
	scheme := runtime.NewScheme()
	meta.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	if err := errors.Join(core.AddToScheme(scheme), networking.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	through, err := rest.HTTPClientFor(to)
	if err != nil {
		return nil, err
	}
	codecs := rest.CodecFactoryForGeneratedClient(scheme, serializer.NewCodecFactory(scheme)).WithoutConversion()
	c := &client{parameters: runtime.NewParameterCodec(scheme)}
	if c.core, err = group(to, "/api", core.SchemeGroupVersion, codecs, through); err == nil {
		c.network, err = group(to, "/apis", networking.SchemeGroupVersion, codecs, through)
	}
	return c, err
}

// group returns the connection for a group of the API.
func group(to *rest.Config, path string, version schema.GroupVersion, codecs runtime.NegotiatedSerializer, through *http.Client) (rest.Interface, error) {
	c := rest.CopyConfig(to)
	c.GroupVersion, c.APIPath, c.NegotiatedSerializer = &version, path, codecs
	return rest.RESTClientForConfigAndClient(c, through)
}

func (c *client) pods(namespace string) *gentype.ClientWithList[*core.Pod, *core.PodList] {
	return gentype.NewClientWithList("pods", c.core, c.parameters, namespace,
		func() *core.Pod { return &core.Pod{} }, func() *core.PodList { return &core.PodList{} })
}

func (c *client) configMaps(namespace string) *gentype.Client[*core.ConfigMap] {
	return gentype.NewClient("configmaps", c.core, c.parameters, namespace, func() *core.ConfigMap { return &core.ConfigMap{} })
}

func (c *client) secrets(namespace string) *gentype.Client[*core.Secret] {
	return gentype.NewClient("secrets", c.core, c.parameters, namespace, func() *core.Secret { return &core.Secret{} })
}

func (c *client) networkPolicies(namespace string) *gentype.Client[*networking.NetworkPolicy] {
	return gentype.NewClient("networkpolicies", c.network, c.parameters, namespace, func() *networking.NetworkPolicy { return &networking.NetworkPolicy{} })
}
