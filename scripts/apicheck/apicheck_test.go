package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

const header = `
#define GGML_API extern
#define GGML_ROPE_TYPE_NEOX 2
#ifdef X
#    define GGML_DEPRECATED(func, hint) func __attribute__((deprecated(hint)))
#endif
enum ggml_type {
	GGML_TYPE_F32 = 0, // GGML_TYPE_GONE = 4, removed
	GGML_TYPE_F16 = 1,
	GGML_TYPE_COUNT,
};
enum ggml_unary_op { GGML_UNARY_OP_GELU, GGML_UNARY_OP_ABS };
enum ggml_unchecked { GGML_UNCHECKED };
/* GGML_API void ggml_in_comment(void);
*/
GGML_API struct ggml_tensor * ggml_add(
	struct ggml_context * ctx, // GGML_API void ggml_in_line_comment(void);
	struct ggml_tensor  * a);
GGML_API GGML_NORETURN GGML_ATTRIBUTE_FORMAT(3, 4) void ggml_print(const char * s);
GGML_DEPRECATED(
	GGML_API void ggml_old(void), // a comment; with a semicolon
	"use ggml_add(a, b) instead");
GGML_DEPRECATED(GGML_API void ggml_older(void), "GGML_API void ggml_in_string(void);");
GGML_API struct ggml_tensor * ggml_view(void);
GGML_API struct ggml_tensor * ggml_view_1d(void);
GGML_API struct ggml_tensor * ggml_view_2d(void);
GGML_BACKEND_API void ggml_gelu (void);
GGML_API ggml_t ggml_last(void); GGML_API ggml_u ggml_very_last(int (*callback)(int));
`

const code = `
// Package ggml is a fixture.
package ggml

import "C"

// A Type is a type. C: enum ggml_type.
type Type int

// The types.
const (
	F32 Type = C.GGML_TYPE_F32
	F16 Type = C.GGML_TYPE_F16
	NeoX = 2 // C: GGML_ROPE_TYPE_NEOX
)

var table = C.GGML_UNARY_OP_ABS

// A Context is one.
type Context struct{}

// Add adds. The letter C: in front is none. C: ggml_add,
// ggml_last.
func (c *Context) Add() { _ = C.GGML_UNARY_OP_ABS }

// View views. C: ggml_view and
// its 1d to 2d forms.
func (c *Context) View() {}

// VeryLast is last. C: ggml_very_last.
func VeryLast() {}

// C: ggml_old.
func hidden() {}
`

const excepted = `
# comment
ggml_print: prints; see ` + "`Context.Add`" + `
ggml_old: deprecated
ggml_older: deprecated
ggml_gelu: replaced
`

// check compares the fixtures after replacing "old" by "new" in each, for pairs of replacements.
func check(t *testing.T, replacements ...string) *report {
	replace := strings.NewReplacer(replacements...).Replace
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ggml.h"), []byte(replace(header)), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ggml.go"), []byte(replace(code)), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ggml_test.go"), []byte("package ggml\n\n// T tests. C: ggml_lie.\nfunc T() {}\n"), 0o644))
	c := need.Value(readHeaders(dir, []string{"ggml.h"}))(t)
	b := need.Value(readPackage(dir))(t)
	e := need.Value(parseExceptions(replace(excepted)))(t)
	return compare(c, b, e)
}

func TestFunctionsOfHeader(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x.h"), []byte(header), 0o644))
	c := need.Value(readHeaders(dir, []string{"x.h"}))(t)
	var names []string
	for _, f := range c.functions {
		require.Equal(t, strings.HasPrefix(f.name, "ggml_old"), f.deprecated, f.name)
		names = append(names, f.name)
	}
	require.Equal(t, []string{"ggml_add", "ggml_print", "ggml_old", "ggml_older", "ggml_view", "ggml_view_1d", "ggml_view_2d",
		"ggml_gelu", "ggml_last", "ggml_very_last"}, names)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "y.h"), []byte("GGML_API int ggml_variable;"), 0o644))
	_, err := readHeaders(dir, []string{"y.h"})
	require.ErrorContains(t, err, `y.h: no function is found in the declaration of "int ggml_variable"`)
	_, err = readHeaders(dir, []string{"missing.h"})
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestNothingWrong(t *testing.T) {
	r := check(t, "ggml_gelu: replaced\n", "", "ggml_very_last.", "ggml_very_last, ggml_gelu.")
	require.False(t, r.failed(), r)
	require.Equal(t, "apicheck: 10 functions: 7 bound, 3 excepted, 0 missing; 0 values missing; 0 other problems\n", r.String())
}

// Each planted defect is reported, and nothing else.
func TestPlantedDefects(t *testing.T) {
	cases := []struct {
		name    string
		replace []string
		want    string
	}{
		{"a new function", []string{"#define GGML_API extern", "GGML_API void ggml_new(void);"}, "ggml.h: 1 not bound:\n\tggml_new\n"},
		{"a claim is gone", []string{" C: ggml_very_last.", ""}, "ggml.h: 1 not bound:\n\tggml_very_last\n"},
		{"the symbol is not exported", []string{"// VeryLast", "// veryLast", "func VeryLast", "func veryLast"}, "ggml.h: 1 not bound:\n\tggml_very_last\n"},
		{"the type is not exported", []string{"Context", "context", "`Context.Add`", "`VeryLast`"}, "ggml.h: 5 not bound:\n\tggml_add\n\tggml_view\n\tggml_view_1d\n\tggml_view_2d\n\tggml_last\nenum ggml_unary_op: 1 values not bound:\n\tGGML_UNARY_OP_ABS\n"},
		{"a form is not claimed", []string{"1d to 2d forms", "1d form"}, "ggml.h: 2 not bound:\n\tggml_view_1d\n\tggml_view_2d\n"},
		{"a form too many", []string{"1d to 2d", "1d to 3d"}, "Context.View claims ggml_view_3d, which is not in the headers\n"},
		{"a false claim", []string{"ggml_very_last.", "ggml_very_last, ggml_lie."}, "VeryLast claims ggml_lie, which is not in the headers\n"},
		{"a claim of what is only in a comment", []string{"ggml_very_last.", "ggml_very_last, ggml_in_comment."}, "VeryLast claims ggml_in_comment, which is not in the headers\n"},
		{"a claim of what is only in a string", []string{"ggml_very_last.", "ggml_very_last, ggml_in_string."}, "VeryLast claims ggml_in_string, which is not in the headers\n"},
		{"a false prefix", []string{"ggml_very_last.", "ggml_very_last, GGML_LIE_…."}, "VeryLast claims GGML_LIE_…, and nothing in the headers begins so\n"},
		{"a false range", []string{"ggml_very_last.", "ggml_very_last to ggml_add."}, "VeryLast claims ggml_very_last to ggml_add, which is not a range of functions of a header\n"},
		{"a false claim of a constant", []string{"C: GGML_ROPE_TYPE_NEOX", "C: GGML_ROPE_TYPE_LIE"}, "GGML_ROPE_TYPE_…: 1 values not bound:\n\tGGML_ROPE_TYPE_NEOX\nNeoX claims GGML_ROPE_TYPE_LIE, which is not in the headers\n"},
		{"a value is missing", []string{"\tF16 Type = C.GGML_TYPE_F16\n", ""}, "enum ggml_type: 1 values not bound:\n\tGGML_TYPE_F16\n"},
		{"a value is used where nobody sees it", []string{"\tF16 Type", "\tf16 Type"}, "enum ggml_type: 1 values not bound:\n\tGGML_TYPE_F16\n"},
		{"a new value", []string{"GGML_TYPE_COUNT", "GGML_TYPE_NEW, GGML_TYPE_COUNT"}, "enum ggml_type: 1 values not bound:\n\tGGML_TYPE_NEW\n"},
		{"a new unary op", []string{"GGML_UNARY_OP_GELU,", "GGML_UNARY_OP_GELU, GGML_UNARY_OP_NEW,"}, "enum ggml_unary_op: 1 values not bound:\n\tGGML_UNARY_OP_NEW\n"},
		{"an exception of nothing", []string{"# comment", "ggml_lie: it does not exist"}, "exceptions.txt: ggml_lie is not in the headers\n"},
		{"an exception of no value", []string{"# comment", "GGML_LIE_…: they do not exist"}, "exceptions.txt: GGML_LIE_… is not in the headers\n"},
		{"an exception that is bound", []string{"# comment", "ggml_add: it is not bound"}, "exceptions.txt: ggml_add is bound by Context.Add; remove it\n"},
		{"an exception with a false replacement", []string{"`Context.Add`", "`Context.Subtract`"}, "exceptions.txt: ggml_print: there is no Go symbol Context.Subtract\n"},
		{"an exception that is not deprecated", []string{"ggml_print: prints", "ggml_print: deprecated"}, "exceptions.txt: ggml_print is not marked as deprecated in the headers\n"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			base := []string{"ggml_gelu: replaced\n", "", "func hidden", "// Gelu is an op. C: ggml_gelu.\nfunc Gelu() {}\nfunc hidden"}
			r := check(t, append(c.replace, base...)...)
			require.True(t, r.failed())
			got, _, _ := strings.Cut(r.String(), "apicheck:")
			require.Equal(t, c.want, got)
		})
	}
}

func TestExceptionsFile(t *testing.T) {
	_, err := parseExceptions("a: b\n\na: c\n")
	require.EqualError(t, err, "exceptions.txt:3: a is there twice")
	for _, text := range []string{"ggml_add", "ggml_add:", "ggml_add: "} {
		_, err = parseExceptions(text)
		require.EqualError(t, err, `exceptions.txt:1: ggml_add has no reason; write "name: reason"`)
	}

	var declarations, list strings.Builder
	for i := range maxExceptions + 1 {
		name := "ggml_x" + strings.Repeat("x", i)
		declarations.WriteString("GGML_API void " + name + "(void);\n")
		list.WriteString(name + ": reason\n")
	}
	r := check(t, "#define GGML_API extern", declarations.String(), "# comment", list.String())
	require.Contains(t, r.String(), "exceptions.txt: there are 45 functions; at most 40 may be there")
}

// In the installed headers it finds as many functions as another way of counting.
func TestInstalledHeaders(t *testing.T) {
	root := filepath.Join("..", "..")
	dir := need.Value(findHeaders(root))(t)
	c := need.Value(readHeaders(dir, headerNames))(t)
	counts := map[string]int{}
	for _, f := range c.functions {
		counts[f.header]++
	}
	mark := regexp.MustCompile(`^[^#/]*\bGGML_(BACKEND_)?API\b`)
	for _, name := range headerNames {
		text := need.Value(os.ReadFile(filepath.Join(dir, name)))(t)
		lines := 0
		for line := range strings.Lines(string(text)) {
			if mark.MatchString(line) {
				lines++
			}
		}
		require.Equal(t, lines, counts[name], name)
	}

	r := need.Value(run(dir, root))(t)
	require.Equal(t, len(c.functions), r.bound+r.excepted+len(r.missing))
	require.NotContains(t, r.missing, function{name: "ggml_mul_mat", header: "ggml.h"})
}
