package main

import (
	"bytes"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"strings"
	"text/template"
	"unicode"
)

// block is one const declaration of package abi.
type block struct {
	Doc    string
	Consts []number
}

// number is one constant, its name in upper snake case. Templates add the syntax of their language.
type number struct{ Name, Value, Comment string }

// generate executes the template with the constants of the Go file.
func generate(source, templateFile string) ([]byte, error) {
	blocks, err := constants(source)
	if err != nil {
		return nil, err
	}
	tmpl, err := template.ParseFiles(templateFile)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = tmpl.Execute(&out, map[string]any{"Blocks": blocks})
	return out.Bytes(), err
}

func constants(source string) ([]block, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, source, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	info := types.Info{Defs: map[*ast.Ident]types.Object{}}
	if _, err := new(types.Config).Check("abi", fset, []*ast.File{file}, &info); err != nil {
		return nil, err
	}
	var blocks []block
	for _, d := range file.Decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok || decl.Tok != token.CONST {
			continue
		}
		b := block{Doc: strings.TrimSpace(decl.Doc.Text())}
		for _, spec := range decl.Specs {
			b.Consts = append(b.Consts, numbers(spec.(*ast.ValueSpec), info)...)
		}
		blocks = append(blocks, b)
	}
	return blocks, nil
}

func numbers(spec *ast.ValueSpec, info types.Info) []number {
	var list []number
	for _, name := range spec.Names {
		v := info.Defs[name].(*types.Const).Val()
		if v.Kind() != constant.Int {
			continue // the name of the import module is written where it is used
		}
		list = append(list, number{
			Name:    snake(name.Name),
			Value:   v.ExactString(),
			Comment: strings.TrimSpace(spec.Comment.Text()),
		})
	}
	return list
}

// snake converts MinuteOfDay to MINUTE_OF_DAY and keeps runs of capitals together: MatchCIDR becomes MATCH_CIDR.
func snake(s string) string {
	var b strings.Builder
	rs := []rune(s)
	for i, r := range rs {
		lowerBefore := i > 0 && !unicode.IsUpper(rs[i-1])
		wordStart := i > 0 && i+1 < len(rs) && unicode.IsLower(rs[i+1])
		if unicode.IsUpper(r) && (lowerBefore || wordStart) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToUpper(r))
	}
	return b.String()
}
