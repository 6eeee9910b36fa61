package main

import (
	"bytes"
	"embed"
	"path"
	"text/template"
)

// files are the templates of what the maker writes itself, and the scripts and units of the packages.
//
//go:embed files
var files embed.FS

// fill returns a template of files with its fields filled in.
func fill(name string, data any) ([]byte, error) {
	t, err := template.New(name).Option("missingkey=error").ParseFS(files, path.Join("files", name))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = t.Execute(&out, data)
	return out.Bytes(), err
}
