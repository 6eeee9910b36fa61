package setup

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/model/prove"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
)

// Model is a chosen model.
type Model struct {
	Maker
	Name   string
	Key    config.Secret // to be written to a file; empty: none, or KeyEnv names it
	KeyVar string        // the variable that the configuration names
	Proof  prove.Proof
}

// config is the tier for a proof.
func (m Model) config(getenv func(string) string) config.Model {
	key := m.Key
	if m.KeyVar != "" {
		key = config.Secret(getenv(m.KeyVar))
	}
	return config.Model{Provider: m.Provider, Model: m.Name, BaseURL: m.BaseURL, APIKey: key, MaxOutputTokens: prove.Tokens, TimeoutSeconds: 120}
}

// secretName names the file of the model's key.
func (m Model) secretName() string { return m.Maker.Name + "_api_key" }

// PickModel finds out which model to use, and proves it.
func (s *Setup) PickModel(ctx context.Context, a Answers, found Found) (Model, error) {
	for given := a.Model; ; {
		m, err := s.askModel(ctx, given, found)
		if err != nil || m.Provider == Demo || a.NoCheck {
			return m, err
		}
		why, err := s.proveModel(ctx, &m)
		if err != nil || why == "" {
			return m, err
		}
		next, err := s.afterFailure(ctx, m, why)
		if err != nil || next == "keep" {
			return m, err
		}
		given = again(m, next)
		if next == "key" {
			found.Keys = nil // the one in the environment is the wrong one
		}
	}
}

// proveModel has the model answer. why says in words why it does not.
func (s *Setup) proveModel(ctx context.Context, m *Model) (why string, err error) {
	s.Asker.Say("Asking " + m.Name + " for one word…")
	cfg := m.config(s.Getenv)
	m.Proof, err = prove.Model(ctx, cfg)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil:
		return prove.Explain(cfg, err), nil
	}
	s.Asker.Say(fmt.Sprintf("It answered in %v.", m.Proof.Took.Round(time.Millisecond)))
	return "", nil
}

// afterFailure asks what to change about a model that does not answer.
func (s *Setup) afterFailure(ctx context.Context, m Model, why string) (next string, err error) {
	if !s.Asker.Asks() {
		return "", fmt.Errorf("the model does not answer: %s", why)
	}
	s.Asker.Say("That did not work: " + why + ".")
	options := []Option{{"key", "give the key again"}, {"model", "choose another model"}, {"other", "choose something else"}, {"keep", "use it all the same"}}
	switch {
	case m.Ask:
		options = slices.Insert(options, 0, Option{"address", "give the address again"})
	case m.KeyEnv == "": // Ollama
		options = options[1:]
	}
	return s.Asker.Choose(ctx, "What now?", options)
}

// again returns the answers that stay after a failure.
func again(m Model, change string) ModelAnswers {
	a := ModelAnswers{Provider: m.Maker.Name, Model: m.Name, BaseURL: m.BaseURL, askKey: change == "key"}
	switch change {
	case "address":
		a.BaseURL, a.wrong, a.APIKeyEnv, a.key = "", m.BaseURL, m.KeyVar, m.Key
	case "model":
		a.Model, a.APIKeyEnv, a.key = "", m.KeyVar, m.Key
	case "other":
		return ModelAnswers{}
	}
	return a
}

func (s *Setup) askModel(ctx context.Context, a ModelAnswers, found Found) (Model, error) {
	maker, err := s.askMaker(ctx, a, found)
	if err != nil || maker.Provider == Demo {
		return Model{Maker: maker}, err
	}
	m := Model{Maker: maker, Name: a.Model}
	if a.BaseURL != "" {
		m.BaseURL = a.BaseURL
	} else if maker.Ask {
		if m.BaseURL, err = s.Asker.Text(ctx, "Address of the server", "usually ends in /v1", cmp.Or(a.wrong, "http://127.0.0.1:8080/v1"), ValidURL); err != nil {
			return m, without(err, "--base-url")
		}
	}
	if m.BaseURL != "" {
		if err := ValidURL(m.BaseURL); err != nil {
			return m, fmt.Errorf("the address of the model server %w", err)
		}
	}
	if err := s.askKey(ctx, a, found, &m); err != nil {
		return m, err
	}
	if m.Name == "" {
		err = s.askModelName(ctx, &m)
	}
	return m, err
}

// ValidURL reports what is wrong with the address of a server.
func ValidURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return errors.New(`must be such as "http://127.0.0.1:11434/v1"`)
	}
	return nil
}

// askMaker returns the maker that was named, the one that a person chooses, or the best of what was found.
func (s *Setup) askMaker(ctx context.Context, a ModelAnswers, found Found) (Maker, error) {
	if a.Provider != "" {
		m, ok := makerNamed(a.Provider)
		if !ok {
			return m, fmt.Errorf("no model provider %q: use one of %s", a.Provider, strings.Join(MakerNames(), ", "))
		}
		return m, nil
	}
	all := offered(found)
	var options []Option
	for i, m := range all {
		options = append(options, Option{fmt.Sprint(i), m.Title})
	}
	value, err := s.Asker.Choose(ctx, "Which model shall answer?", options)
	if errors.Is(err, ErrNobody) {
		if len(found.Keys)+len(found.Servers) > 0 {
			return all[0], nil
		}
		m, _ := makerNamed(Demo)
		return m, nil
	}
	if err != nil {
		return Maker{}, err
	}
	i := slices.IndexFunc(options, func(o Option) bool { return o.Value == value })
	return all[max(i, 0)], nil
}

// offered are the makers to choose from, those that were found first.
func offered(found Found) []Maker {
	var out []Maker
	for _, m := range found.Keys {
		m.Title += ", with the key in $" + m.KeyEnv
		out = append(out, m)
	}
	for _, s := range found.Servers {
		name := "server"
		if s.Name == "Ollama" {
			name = "ollama"
		}
		m := Maker{Name: name, Title: s.Name + " at " + s.BaseURL, Provider: "openai", BaseURL: s.BaseURL}
		if len(s.Models) > 0 {
			m.Model = s.Models[0]
		}
		out = append(out, m)
	}
	for _, m := range Makers() {
		if !slices.ContainsFunc(out, func(o Maker) bool { return o.Name == m.Name && m.Name != "server" }) {
			out = append(out, m)
		}
	}
	return out
}

// askKey finds the key. One that only this environment has is copied to a file, so that a service has it too.
func (s *Setup) askKey(ctx context.Context, a ModelAnswers, found Found, m *Model) (err error) {
	inEnvironment := slices.ContainsFunc(found.Keys, func(k Maker) bool { return k.KeyEnv == m.KeyEnv })
	switch {
	case a.APIKeyEnv != "" && a.APIKeyFile != "":
		return errors.New("--api-key-env and --api-key-file: use one of them")
	case a.APIKeyEnv != "":
		if s.Getenv(a.APIKeyEnv) == "" {
			return fmt.Errorf("--api-key-env: the environment variable %s is not set", a.APIKeyEnv)
		}
		m.KeyVar = a.APIKeyEnv
	case a.APIKeyFile != "":
		m.Key, err = ReadSecret(a.APIKeyFile)
	case a.key != "":
		m.Key = a.key
	case m.KeyEnv == "" && !a.askKey:
	case inEnvironment && m.KeyEnv != "":
		m.Key, err = CleanSecret(s.Getenv(m.KeyEnv))
	default:
		m.Key, err = s.Asker.Secret(ctx, "API key of "+m.Title, "it is stored in a file that only you can read")
		err = without(err, "--api-key-file or --api-key-env")
	}
	return err
}

func (s *Setup) askModelName(ctx context.Context, m *Model) (err error) {
	key := m.Key
	if m.KeyVar != "" {
		key = config.Secret(s.Getenv(m.KeyVar))
	}
	if m.KeyEnv != "" { // the lists of big makers are too long to choose from
		m.Name, err = s.Asker.Text(ctx, "Name of the model", "as "+m.Title+" calls it", m.Model, needed)
	} else if names := ListModels(ctx, m.BaseURL, key.Reveal()); len(names) > 0 {
		m.Model = names[0]
		var options []Option
		for _, name := range names {
			options = append(options, Option{name, name})
		}
		m.Name, err = s.Asker.Choose(ctx, "Which of its models?", options)
	} else {
		m.Name, err = s.Asker.Text(ctx, "Name of the model", "the server at "+m.BaseURL+" does not list any", m.Model, needed)
	}
	if errors.Is(err, ErrNobody) && m.Model != "" {
		m.Name, err = m.Model, nil
	}
	return without(err, "--model")
}

func needed(text string) error {
	if strings.TrimSpace(text) == "" {
		return errors.New("it is needed")
	}
	return nil
}

// without says which flag answers a question that nobody can be asked.
func without(err error, flag string) error {
	if errors.Is(err, ErrNobody) {
		return fmt.Errorf("%w: give %s", err, flag)
	}
	return err
}

// table is the model's table in flynn.toml, with key as the path of its key's file.
func (m Model) table(keyFile string) edit.Table {
	t := edit.Table{"provider": m.Provider}
	for key, value := range map[string]string{"model": m.Name, "base_url": m.BaseURL, "api_key_env": m.KeyVar, "api_key_file": keyFile} {
		if value != "" {
			t[key] = value
		}
	}
	return t
}

// SetModel puts a model into a tier of a file. Other keys of the tier stay.
func SetModel(f *edit.File, tier string, t edit.Table) error {
	if tier == "default" && t["provider"] != Demo {
		if err := f.Replace(bytes.Replace(f.Bytes(), []byte(withDemo), nil, 1)); err != nil {
			return err
		}
	}
	if !f.Has("models", tier) {
		return f.Set(t, "models", tier)
	}
	for _, key := range []string{"provider", "model", "base_url", "api_key_env", "api_key_file"} {
		var err error
		if value, ok := t[key]; ok {
			err = f.Set(value, "models", tier, key)
		} else if f.Has("models", tier, key) {
			err = f.Remove("models", tier, key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
