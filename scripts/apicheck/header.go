package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// A function is declared in a header for users of ggml.
type function struct {
	name       string
	header     string
	deprecated bool
}

// A cAPI is the API that the headers declare.
type cAPI struct {
	functions []function      // in the order of the headers
	at        map[string]int  // index in functions, by name
	values    []value         // values of the checked enumerations and macros
	known     map[string]bool // every identifier
}

// A value belongs to an enumeration.
type value struct{ name, enum string }

// checkedEnums are the enumerations whose values a Go program must be able to pass or receive.
var checkedEnums = map[string]bool{
	"ggml_type": true, "ggml_unary_op": true, "ggml_glu_op": true, "ggml_op_pool": true, "ggml_scale_mode": true,
	"ggml_sort_order": true, "ggml_tri_type": true, "ggml_prec": true, "ggml_tensor_flag": true, "ggml_log_level": true,
	"ggml_backend_dev_type": true, "ggml_backend_buffer_usage": true, "gguf_type": true, "ggml_numa_strategy": true,
	"ggml_sched_priority": true, "ggml_opt_loss_type": true, "ggml_opt_build_type": true, "ggml_opt_optimizer_type": true,
}

// checkedMacros are prefixes of constants that form an enumeration.
var checkedMacros = []string{"GGML_ROPE_TYPE_"}

var (
	commentOrString = regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"`)
	continuedLine   = regexp.MustCompile(`\\\r?\n`)
	directive       = regexp.MustCompile(`(?m)^[ \t]*#.*$`)
	macro           = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+\S`)
	identifier      = regexp.MustCompile(`[A-Za-z_]\w*`)
	apiMark         = regexp.MustCompile(`\b(?:GGML_API|GGML_BACKEND_API)\b`)
	deprecatedMark  = regexp.MustCompile(`GGML_DEPRECATED\s*\(\s*$`)
	functionName    = regexp.MustCompile(`\b([a-z]\w*)\s*\(`)
	enumBody        = regexp.MustCompile(`\benum\s+(\w+)\s*\{([^}]*)\}`)
	enumName        = regexp.MustCompile(`(?:^|,)\s*([A-Za-z_]\w*)`)
)

func readHeaders(dir string, names []string) (*cAPI, error) {
	c := &cAPI{at: map[string]int{}, known: map[string]bool{}}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		if err := c.parse(name, string(text)); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *cAPI) parse(header, text string) error {
	text = continuedLine.ReplaceAllString(text, " ")
	text = commentOrString.ReplaceAllStringFunc(text, func(s string) string {
		if s[0] == '"' {
			return `""`
		}
		return " "
	})
	for _, name := range identifier.FindAllString(text, -1) {
		c.known[name] = true
	}
	for _, m := range macro.FindAllStringSubmatch(text, -1) {
		for _, prefix := range checkedMacros {
			if strings.HasPrefix(m[1], prefix) {
				c.values = append(c.values, value{m[1], prefix + "…"})
			}
		}
	}
	text = directive.ReplaceAllString(text, "")
	for _, m := range enumBody.FindAllStringSubmatch(text, -1) {
		c.addEnum(m[1], m[2])
	}
	return c.addFunctions(header, text)
}

func (c *cAPI) addEnum(enum, body string) {
	if !checkedEnums[enum] {
		return
	}
	for _, m := range enumName.FindAllStringSubmatch(body, -1) {
		if !strings.HasSuffix(m[1], "_COUNT") {
			c.values = append(c.values, value{m[1], "enum " + enum})
		}
	}
}

func (c *cAPI) addFunctions(header, text string) error {
	for _, mark := range apiMark.FindAllStringIndex(text, -1) {
		declaration, _, _ := strings.Cut(text[mark[1]:], ";")
		m := functionName.FindStringSubmatch(declaration)
		if m == nil {
			return fmt.Errorf("%s: no function is found in the declaration of %.60q", header, strings.TrimSpace(declaration))
		}
		if _, again := c.at[m[1]]; again {
			continue
		}
		c.at[m[1]] = len(c.functions)
		c.functions = append(c.functions, function{m[1], header, deprecatedMark.MatchString(text[:mark[0]])})
	}
	return nil
}
