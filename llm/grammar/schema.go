package grammar

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ParseJSONSchema returns the grammar of [JSONSchema].
func ParseJSONSchema(schema []byte) (*Grammar, error) {
	text, err := JSONSchema(schema)
	if err != nil {
		return nil, err
	}
	return Parse(text)
}

// JSONSchema converts a JSON schema to GBNF: texts of JSON that the schema describes. It writes what llama.cpp's converter writes
// where that has a form for it, with a blank or a line break at most between tokens of JSON, required properties first, and
// no properties beside the named ones unless additionalProperties is given.
//
// It supports true, type, enum, const, properties, required, additionalProperties, items, prefixItems, minItems, maxItems,
// pattern (without look-around), format (date, time, date-time, uuid; others say nothing), minLength, maxLength, the bounds of
// integers, oneOf and anyOf (as alternatives), allOf (of objects, enums and bounds), and $ref inside the document. Another keyword
// that restricts values is an error, because the texts would not keep to it.
func JSONSchema(schema []byte) (gbnf string, err error) {
	w := newSchemaWriter()
	root, err := w.schema(schema)
	if err != nil {
		return "", err
	}
	w.define("root", root)
	return w.text(), nil
}

// JSONSchemas converts JSON schemas to rules in GBNF, without a root, and returns the name of the rule of each schema. Rules have
// no names that begin with "root".
func JSONSchemas(schemas ...[]byte) (gbnf string, rules []string, err error) {
	w := newSchemaWriter()
	for i, schema := range schemas {
		rule, err := w.schema(schema)
		if err != nil {
			return "", nil, fmt.Errorf("schema %d: %w", i, err)
		}
		rules = append(rules, rule)
	}
	return w.text(), rules, nil
}

func newSchemaWriter() *schemaWriter {
	return &schemaWriter{bodies: map[string]string{}, numbers: map[string]int{}}
}

// schema returns the rule of a document.
func (w *schemaWriter) schema(text []byte) (rule string, err error) {
	if w.document, err = readJSON(text); err != nil {
		return "", err
	}
	w.refs = map[string]string{}
	return w.visit(w.document, "")
}

// text returns all rules.
func (w *schemaWriter) text() string {
	var text strings.Builder
	for _, name := range w.names {
		fmt.Fprintf(&text, "%s ::= %s\n", name, w.bodies[name])
	}
	return text.String()
}

// A schemaWriter writes the rules of a schema.
type schemaWriter struct {
	document any
	names    []string
	bodies   map[string]string
	refs     map[string]string // rules by reference
	numbers  map[string]int    // of rules by the beginning of their names
	depth    int
	size     int // of all bodies
	visits   int
}

// maxVisits bounds the schemas that a document stands for, which multiply where schemas are combined.
const maxVisits = 1 << 14

func (w *schemaWriter) count() error {
	if w.visits++; w.visits > maxVisits {
		return fmt.Errorf("the JSON schema is too large: it combines to more than %d schemas", maxVisits)
	}
	return nil
}

// primitives are rules that schemas share.
var primitives = map[string]struct {
	body string
	uses []string
}{
	"space":         {`| " " | "\n"{1,2} [ \t]{0,20}`, nil},
	"boolean":       {`"true" | "false"`, nil},
	"null":          {`"null"`, nil},
	"integral-part": {`[0] | [1-9] [0-9]{0,15}`, nil},
	"decimal-part":  {`[0-9]{1,16}`, nil},
	"integer":       {`"-"? integral-part`, []string{"integral-part"}},
	"number":        {`"-"? integral-part ("." decimal-part)? ([eE] [-+]? integral-part)?`, []string{"integral-part", "decimal-part"}},
	"char":          {`[^"\\\x7F\x00-\x1F] | [\\] (["\\bfnrt] | "u" [0-9a-fA-F]{4})`, nil},
	"string":        {`"\"" char* "\""`, []string{"char"}},
	"array":         {`"[" space (value ("," space value)*)? space "]"`, []string{"value", "space"}},
	"object":        {`"{" space (string ":" space value ("," space string ":" space value)*)? space "}"`, []string{"string", "value", "space"}},
	"value":         {`object | array | string | number | boolean | null`, []string{"object", "array", "string", "number", "boolean", "null"}},
	"date":          {`[0-9]{4} "-" ("0" [1-9] | "1" [0-2]) "-" ("0" [1-9] | [1-2] [0-9] | "3" [0-1])`, nil},
	"time":          {`([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9] ":" [0-5] [0-9] ("." [0-9]{3})? ("Z" | [-+] ([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9])`, nil},
	"date-time":     {`date "T" time`, []string{"date", "time"}},
	"uuid":          {`[0-9a-fA-F]{8} ("-" [0-9a-fA-F]{4}){3} "-" [0-9a-fA-F]{12}`, nil},
}

// use returns the name of a primitive, which it defines.
func (w *schemaWriter) use(name string) string {
	if _, has := w.bodies[name]; !has {
		w.define(name, primitives[name].body)
		for _, other := range primitives[name].uses {
			w.use(other)
		}
	}
	return name
}

func (w *schemaWriter) define(name, body string) string {
	w.names, w.bodies[name] = append(w.names, name), body
	w.size += len(name) + len(body)
	return name
}

// name returns a free name of a rule that is like a path in the schema.
func (w *schemaWriter) name(path string) string {
	name := []byte(path)
	for i, c := range name {
		if !isNameByte(c) {
			name[i] = '-'
		}
	}
	begins := string(name[:min(len(name), 100)])
	if begins == "" || strings.HasPrefix(begins, "root") {
		begins = "schema" + begins
	}
	for {
		w.numbers[begins]++
		free := begins
		if n := w.numbers[begins]; n > 1 {
			free += "-" + strconv.Itoa(n)
		}
		if _, isPrimitive := primitives[free]; !isPrimitive && !strings.HasPrefix(free, "root") && w.bodies[free] == "" {
			return free
		}
	}
}

// rule defines a rule at a path.
func (w *schemaWriter) rule(path, body string) (string, error) {
	if w.size > maxText {
		return "", fmt.Errorf("the JSON schema is too large: its grammar has more than %d bytes", maxText)
	}
	return w.define(w.name(path), body), nil
}

// keywords that restrict values in ways that a grammar of this package does not.
var unsupported = []string{
	"additionalItems", "contains", "dependencies", "dependentRequired", "dependentSchemas", "else", "if", "maxProperties", "minProperties",
	"multipleOf", "not", "patternProperties", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties", "uniqueItems",
	"$dynamicRef", "$recursiveRef",
}

func at(path string) string {
	if path == "" {
		return "the JSON schema"
	}
	return fmt.Sprintf("the JSON schema at %s", path)
}

// join returns the path of a part of a schema.
func join(path string, part any) string {
	if path == "" {
		return fmt.Sprint(part)
	}
	return fmt.Sprint(path, "-", part)
}

// visit returns the name of a rule for the values of a schema.
func (w *schemaWriter) visit(schema any, path string) (string, error) {
	if w.depth++; w.depth > maxDepth {
		return "", fmt.Errorf("%s: more than %d schemas in schemas", at(path), maxDepth)
	}
	defer func() { w.depth-- }()
	if err := w.count(); err != nil {
		return "", err
	}
	o, is := schema.(*object)
	switch {
	case schema == true || is && !restricts(o):
		return w.use("value"), nil
	case schema == false:
		return "", fmt.Errorf("%s is false, which no value satisfies", at(path))
	case !is:
		return "", fmt.Errorf("%s is %s; it must be an object, true or false", at(path), writeJSON(schema))
	case o.has("$ref") && !restricts(without(o, "$ref")):
		return w.reference(o.values["$ref"], path)
	}
	alternatives, err := w.alternatives(o, path)
	if err != nil {
		return "", err
	}
	if len(alternatives) == 1 && alternatives[0] == schema {
		return w.simple(o, path)
	}
	names := make([]string, len(alternatives))
	for i, alternative := range alternatives {
		part := path
		if len(alternatives) > 1 {
			part = join(path, "alternative"+strconv.Itoa(i))
		}
		if names[i], err = w.visit(alternative, part); err != nil {
			return "", err
		}
	}
	if len(names) == 1 {
		return names[0], nil
	}
	return w.rule(path, strings.Join(names, " | "))
}

// simple returns the rule of a schema without alternatives.
func (w *schemaWriter) simple(o *object, path string) (string, error) {
	for _, key := range unsupported {
		if value, has := o.values[key]; has && value != false {
			return "", fmt.Errorf("%s: the keyword %q is unsupported", at(path), key)
		}
	}
	types, err := typesOf(o, path)
	if err != nil {
		return "", err
	}
	switch {
	case o.has("enum") || o.has("const"):
		return w.enum(o, types, path)
	case len(types) > 1:
		return w.types(o, types, path)
	}
	switch kind := types[0]; kind {
	case "object":
		return w.object(o, path)
	case "array":
		return w.array(o, path)
	case "string":
		return w.string(o, path)
	case "integer":
		return w.integer(o, path)
	case "number":
		for _, key := range boundsOfNumbers {
			if o.has(key) {
				return "", fmt.Errorf("%s: %s is supported for integers alone", at(path), key)
			}
		}
		return w.use("number"), nil
	case "boolean", "null":
		return w.use(kind), nil
	default:
		return "", fmt.Errorf("%s: there is no type %q", at(path), kind)
	}
}

// types returns the rule of values of several types.
func (w *schemaWriter) types(o *object, types []string, path string) (string, error) {
	names := make([]string, len(types))
	for i, kind := range types {
		one := without(o)
		one.set("type", kind)
		var err error
		if names[i], err = w.simple(one, join(path, kind)); err != nil {
			return "", err
		}
	}
	return w.rule(path, strings.Join(names, " | "))
}

// enum returns the rule of listed values.
func (w *schemaWriter) enum(o *object, types []string, path string) (string, error) {
	values, err := enumOf(o, path)
	if err != nil {
		return "", err
	}
	if o.has("type") {
		values = slices.DeleteFunc(values, func(v any) bool {
			return !slices.ContainsFunc(types, func(kind string) bool { return hasType(v, kind) })
		})
	}
	if len(values) == 0 {
		return "", fmt.Errorf("%s: no value of the enum satisfies it", at(path))
	}
	literals := make([]string, len(values))
	for i, v := range values {
		literals[i] = Literal(writeJSON(v))
	}
	return w.rule(path, strings.Join(literals, " | "))
}

// reference returns the rule of a part of the document.
func (w *schemaWriter) reference(ref any, path string) (string, error) {
	pointer, target, err := w.resolve(ref, path)
	if err != nil {
		return "", err
	}
	if name, has := w.refs[pointer]; has {
		return name, nil
	}
	name := w.name("ref" + pointer)
	w.refs[pointer] = name
	w.bodies[name] = " " // taken; the schema may refer to itself
	of, err := w.visit(target, "ref"+pointer)
	if err != nil {
		return "", err
	}
	return w.define(name, of), nil
}

// resolve finds a part of the document by a JSON pointer (RFC 6901).
func (w *schemaWriter) resolve(ref any, path string) (pointer string, target any, err error) {
	text, is := ref.(string)
	pointer, inside := strings.CutPrefix(text, "#")
	if !is || !inside || pointer != "" && pointer[0] != '/' {
		return "", nil, fmt.Errorf("%s: $ref is %s; it must be # or #/… , inside the document", at(path), writeJSON(ref))
	}
	target = w.document
	for _, part := range strings.Split(pointer, "/")[1:] {
		var found bool
		if target, found = child(target, strings.NewReplacer("~1", "/", "~0", "~").Replace(unescapePercent(part))); !found {
			return "", nil, fmt.Errorf("%s: $ref is %q, which is not in the document", at(path), text)
		}
	}
	return pointer, target, nil
}

func child(of any, key string) (any, bool) {
	switch v := of.(type) {
	case *object:
		value, has := v.values[key]
		return value, has
	case []any:
		if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < len(v) {
			return v[i], true
		}
	}
	return nil, false
}

// Literal returns a text as an element of GBNF.
func Literal(text string) string { return quote(text, escapeGBNF) }

// escapeGBNF returns a character as it stands in a text or class.
func escapeGBNF(r rune) string {
	switch {
	case strings.ContainsRune(`"\[]-`, r):
		return `\` + string(r)
	case r == '^' || r < ' ' || r == 0x7F:
		return fmt.Sprintf(`\x%02X`, r)
	case r > '~':
		return fmt.Sprintf(`\U%08X`, r)
	}
	return string(r)
}

// count returns a keyword's count, or the default.
func count(o *object, key, path string, otherwise int) (int, error) {
	value, has := o.values[key]
	if !has {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(strings.TrimSuffix(fmt.Sprint(value), ".0"), 10, 31)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s: %s is %s; it must be a count", at(path), key, writeJSON(value))
	}
	return int(n), nil
}

// repeated returns the bounds of a repetition as GBNF.
func repeated(least, most int) string {
	if most == noLimit {
		return fmt.Sprintf("{%d,}", least)
	}
	return fmt.Sprintf("{%d,%d}", least, most)
}
