package grammar

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

func TestJSONSchema(t *testing.T) {
	for _, c := range []struct {
		schema   string
		yes, not []string
	}{
		{`true`, []string{`1`, `"a"`, `[]`, `{"a": [1, {"b":null}]}`, `-0.5e+3`}, []string{``, `{`, `[1,]`, `01`, `{"a"}`, `1 `}},
		{`{"description": "anything", "format": "email"}`, []string{`null`, `{}`}, []string{`nul`}},
		{`{"type": "object"}`, []string{`{}`, `{"a":1,"b":[true]}`}, []string{`[]`, `1`}},
		{`{"type": "string"}`, []string{`""`, `"é\n\u00e9\"\\"`}, []string{"\"\n\"", `"\x"`, `"`, "\"\x7f\""}},
		{`{"type": ["integer", "null"]}`, []string{`-12`, `0`, `null`}, []string{`1.5`, `"1"`, `012`}},
		{`{"type": "boolean"}`, []string{`true`, `false`}, []string{`True`}},
		{`{"const": {"b": [1.0, "\n"], "a": null}}`, []string{`{"b":[1.0,"\n"],"a":null}`}, []string{`{"a":null,"b":[1.0,"\n"]}`}},
		{`{"enum": ["red", 5, null, "\"é"]}`, []string{`"red"`, `5`, `null`, `"\"é"`}, []string{`red`, `6`}},
		{`{"enum": ["red", 5, 1.0], "type": "integer"}`, []string{`5`, `1.0`}, []string{`"red"`}},
		{`{"properties": {"b": {"type": "integer"}, "a": {"type": "string"}, "c": {"type": "null"}}, "required": ["a"]}`,
			[]string{`{"a":"x"}`, `{"a":"x","b":1}`, `{ "a": "x", "b": 1, "c": null }`, `{"a":"","c":null}`, "{\n  \"a\": \"\"\n}"},
			[]string{`{}`, `{"b":1}`, `{"b":1,"a":"x"}`, `{"a":"x",}`, `{"a":"x","d":1}`, `{"a":"x","c":null,"b":1}`}},
		{`{"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}`, []string{`{}`, `{"a":1}`, `{"b":1}`, `{"a":1,"b":2}`}, []string{`{,"a":1}`, `{"a":1 "b":2}`}},
		{`{"properties": {}, "type": "object"}`, []string{`{}`, `{ }`}, []string{`{"a":1}`}},
		{`{"properties": {"aa": {"type": "integer"}, "ab": true, "\"": true}, "additionalProperties": {"type": "boolean"}}`,
			[]string{`{"aa":1,"\"":2,"x":true,"":false}`, `{"a":true,"aaa":true,"ac":true,"b\"":true}`, `{}`},
			[]string{`{"aa":true}`, `{"x":true,"aa":1}`, `{"\u0061a":true}`, `{"ab":}`}},
		{`{"additionalProperties": {"type": "integer"}}`, []string{`{}`, `{"a":1,"b":2}`}, []string{`{"a":"b"}`}},
		{`{"required": ["a"], "type": "object"}`, []string{`{"a":[1]}`, `{"a":1,"b":2}`}, []string{`{}`}},
		{`{"items": {"type": "integer"}}`, []string{`[]`, `[1]`, `[1, 2,3]`}, []string{`[,1]`, `["a"]`}},
		{`{"items": {"type": "integer"}, "minItems": 2, "maxItems": 3}`, []string{`[1,2]`, `[1,2,3]`}, []string{`[]`, `[1]`, `[1,2,3,4]`}},
		{`{"type": "array", "maxItems": 1}`, []string{`[]`, `["a"]`}, []string{`[1,2]`}},
		{`{"type": "array", "maxItems": 0}`, []string{`[]`}, []string{`[1]`}},
		{`{"prefixItems": [{"type": "integer"}, {"type": "string"}]}`, []string{`[1,"a"]`}, []string{`[1]`, `[]`, `[1,"a",2]`}},
		{`{"items": [{"type": "integer"}, {"type": "string"}], "minItems": 1}`, []string{`[1]`, `[1,"a"]`}, []string{`[]`, `["a"]`}},
		{`{"prefixItems": [{"type": "integer"}], "items": {"type": "null"}, "minItems": 2, "maxItems": 3}`, []string{`[1,null]`, `[1,null,null]`}, []string{`[1]`, `[null]`, `[1,null,null,null]`}},
		{`{"type": "string", "minLength": 2, "maxLength": 3}`, []string{`"éé"`, `"a\"b"`}, []string{`"a"`, `"abcd"`}},
		{`{"type": "string", "maxLength": 4000}`, []string{`""`, `"` + strings.Repeat("é", 4000) + `"`}, []string{`"` + strings.Repeat("a", 4001) + `"`}},
		{`{"type": "string", "format": "date"}`, []string{`"2026-11-28"`}, []string{`"2026-13-28"`, `"2026-1-2"`}},
		{`{"format": "date-time"}`, []string{`"2026-11-28T14:05:06Z"`, `"2026-11-28T14:05:06.123+02:00"`}, []string{`"2026-11-28 14:05:06Z"`}},
		{`{"format": "time"}`, []string{`"23:59:59Z"`}, []string{`"24:00:00Z"`}},
		{`{"format": "uuid4"}`, []string{`"123e4567-e89b-12d3-a456-426614174000"`}, []string{`"123e4567e89b12d3a456426614174000"`}},
		{`{"pattern": "^[a-c]{2}(x|\\d+)?$"}`, []string{`"ab"`, `"abx"`, `"cc42"`}, []string{`"a"`, `"abxx"`, `"abd"`}},
		{`{"pattern": "b"}`, []string{`"abc"`, `"b"`}, []string{`"ac"`}},
		{`{"pattern": "^a|b$"}`, []string{`"ax"`, `"xb"`}, []string{`"xa"`}},
		{`{"pattern": "^(?:\"|\\\\|\\n|[^a])$"}`, []string{`"\""`, `"\\"`, `"\n"`, `"b"`, `"é"`}, []string{`"a"`, `"""`, "\"\n\""}},
		{`{"pattern": "^(?i:aé).\\.$"}`, []string{`"AÉx."`, `"aé\"."`}, []string{`"aé\n."`, `"aexx"`}},
		{`{"pattern": ""}`, []string{`""`, `"abc"`}, nil},
		{`{"anyOf": [{"type": "integer"}, {"type": "null"}]}`, []string{`1`, `null`}, []string{`"a"`}},
		{`{"oneOf": [{"const": 1}, {"enum": [2, 3]}]}`, []string{`1`, `2`, `3`}, []string{`4`}},
		{`{"properties": {"a": {"type": "integer"}}, "required": ["a"], "anyOf": [{"properties": {"b": {"type": "null"}}, "required": ["b"]}, {"properties": {"c": {"type": "null"}}}]}`,
			[]string{`{"a":1,"b":null}`, `{"a":1}`, `{"a":1,"c":null}`}, []string{`{"b":null}`, `{"a":1,"b":null,"c":null}`}},
		{`{"allOf": [{"$ref": "#/$defs/x"}, {"properties": {"b": {"maximum": 9}}}], "$defs": {"x": {"properties": {"a": {"type": "null"}, "b": {"type": "integer", "minimum": 3}}, "required": ["a", "b"]}}}`,
			[]string{`{"a":null,"b":3}`, `{"a":null,"b":9}`}, []string{`{"a":null}`, `{"a":null,"b":2}`, `{"a":null,"b":10}`}},
		{`{"allOf": [{"enum": [1, 2, 3]}, {"enum": [2, 3, 4]}, {"type": "number"}, true]}`, []string{`2`, `3`}, []string{`1`, `4`}},
		{`{"allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"type": ["string", "null"]}]}`, []string{`"a"`}, []string{`1`, `null`}},
		{`{"$ref": "#/definitions/tree", "definitions": {"tree": {"properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/definitions/tree"}, {"type": "null"}]}}, "required": ["v", "next"]}}}`,
			[]string{`{"v":1,"next":null}`, `{"v":1,"next":{"v":2,"next":null}}`}, []string{`{"v":1}`, `{"v":1,"next":1}`}},
		{`{"items": {"$ref": "#"}}`, []string{`[]`, `[[],[[]]]`}, []string{`[1]`}},
		{`{"properties": {"root": {"type": "integer"}, "string": {"$ref": "#/properties/a~1b%20c"}, "a/b c": {"type": "null"}}}`, []string{`{"root":1,"string":null,"a/b c":null}`}, []string{`{"string":1}`}},
	} {
		g, err := ParseJSONSchema([]byte(c.schema))
		require.NoError(t, err, "%s", c.schema)
		for _, text := range c.yes {
			require.True(t, json.Valid([]byte(text)), "%s", text)
			require.True(t, need.Value(g.Match(text))(t), "%s\n%s", c.schema, text)
		}
		for _, text := range c.not {
			require.False(t, need.Value(g.Match(text))(t), "%s\n%s", c.schema, text)
		}
	}
}

func TestJSONSchemaErrors(t *testing.T) {
	for schema, message := range map[string]string{
		`{`:                               `the JSON schema is not valid JSON: unexpected EOF`,
		`{} {}`:                           `the JSON schema is not valid JSON: text follows its end`,
		`1`:                               `the JSON schema is 1; it must be an object, true or false`,
		`false`:                           `the JSON schema is false, which no value satisfies`,
		`{"type": "text"}`:                `the JSON schema: there is no type "text"`,
		`{"type": 1}`:                     `the JSON schema: type is 1; it must be a text or a list of texts`,
		`{"type": []}`:                    `the JSON schema: type is []; it must be a text or a list of texts`,
		`{"enum": []}`:                    `the JSON schema: enum must be a list of values`,
		`{"enum": [1], "type": "string"}`: `the JSON schema: no value of the enum satisfies it`,
		`{"anyOf": []}`:                   `the JSON schema: anyOf must be a list of schemas`,
		`{"properties": []}`:              `the JSON schema: properties must be an object`,
		`{"required": [1]}`:               `the JSON schema: required must be a list of names`,
		`{"not": {}}`:                     `the JSON schema: the keyword "not" is unsupported`,
		`{"properties": {"a": {"type": "array", "uniqueItems": true}}}`:   `the JSON schema at a: the keyword "uniqueItems" is unsupported`,
		`{"type": "number", "minimum": 1}`:                                `the JSON schema: minimum is supported for integers alone`,
		`{"type": "integer", "minimum": 5, "maximum": 4}`:                 `the JSON schema: no integer is at least 5 and at most 4`,
		`{"type": "integer", "minimum": "a"}`:                             `the JSON schema: minimum is "a"; it must be a number`,
		`{"type": "integer", "minimum": 1e999999999}`:                     `the JSON schema: minimum is 1e999999999; it must be a number of at most 53 bits, or an integer of 64`,
		`{"type": "string", "minLength": -1}`:                             `the JSON schema: minLength is -1; it must be a count`,
		`{"type": "string", "minLength": 3, "maxLength": 2}`:              `the JSON schema: a string of at least 3 and at most 2 characters`,
		`{"type": "string", "maxLength": 2000000}`:                        `grammar: it needs more than 262144 states; lower the counts of its repetitions`,
		`{"type": "string", "maxLength": 3, "pattern": "a"}`:              `the JSON schema: pattern beside minLength or maxLength is unsupported; write the lengths in the pattern`,
		`{"pattern": "(?=a)"}`:                                            "the JSON schema: the pattern \"(?=a)\" is unsupported: error parsing regexp: invalid or unsupported Perl syntax: `(?=`",
		`{"pattern": "a\\bc"}`:                                            `the JSON schema: the pattern "a\\bc" is unsupported: there is no form for \b`,
		`{"pattern": "a^b"}`:                                              `the JSON schema: the pattern "a^b" is unsupported: ^ and $ can only be at its ends`,
		`{"minItems": 2, "maxItems": 1}`:                                  `the JSON schema: an array of at least 2 and at most 1 items`,
		`{"$ref": "other.json"}`:                                          `the JSON schema: $ref is "other.json"; it must be # or #/… , inside the document`,
		`{"$ref": "#/$defs/x"}`:                                           `the JSON schema: $ref is "#/$defs/x", which is not in the document`,
		`{"$ref": "#"}`:                                                   `grammar: the rule "ref" can begin with itself (left recursion); write it as a repetition, or with itself at the end`,
		`{"allOf": [{"$ref": "#"}, {"type": "string"}]}`:                  `the JSON schema is too large: it combines to more than 16384 schemas`,
		`{"allOf": [{"type": "string"}, {"type": "integer"}]}`:            `the JSON schema: no value satisfies all of its schemas`,
		`{"allOf": [{"pattern": "a"}, {"pattern": "b"}]}`:                 `the JSON schema: two schemas of the same values both have pattern; that is unsupported`,
		strings.Repeat(`{"items":`, 200) + `1` + strings.Repeat(`}`, 200): `the JSON schema is not valid JSON: more than 128 nested values`,
		`{"allOf": [` + strings.Repeat(`{"anyOf": [{"minLength": 1}, {"maxLength": 9}]},`, 20) + `true]}`: `the JSON schema: its combinations have more than 256 alternatives`,
	} {
		_, err := ParseJSONSchema([]byte(schema))
		require.EqualError(t, err, message, "%.200s", schema)
	}
}

// The bounds of integers are exact, at random bounds of all sizes.
func TestIntegers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	draw := func() int64 {
		n := rng.Int64N(1 << (1 + rng.IntN(40)))
		return n - rng.Int64N(2)*2*n
	}
	for range 300 {
		a, b := draw(), draw()
		a, b = min(a, b), max(a, b)
		g := need.Value(ParseJSONSchema(fmt.Appendf(nil, `{"type": "integer", "minimum": %d, "exclusiveMaximum": %d}`, a, b+1)))(t)
		for range 60 {
			n := draw()
			if rng.IntN(2) == 0 {
				n = []int64{a, b}[rng.IntN(2)] + rng.Int64N(5) - 2
			}
			require.Equal(t, a <= n && n <= b, need.Value(g.Match(strconv.FormatInt(n, 10)))(t), "%d in %d to %d", n, a, b)
		}
	}
	for schema, n := range map[string]string{
		`{"type": "integer", "minimum": 9223372036854775806}`:          "9223372036854775807",
		`{"type": "integer", "maximum": -9223372036854775807}`:         "-9223372036854775807",
		`{"type": "integer", "exclusiveMinimum": 2.5, "maximum": 1e1}`: "3",
		`{"type": "integer", "minimum": 0}`:                            "9999999999999999",
	} {
		g := need.Value(ParseJSONSchema([]byte(schema)))(t)
		require.True(t, need.Value(g.Match(n))(t), "%s", schema)
	}
}

func FuzzJSONSchema(f *testing.F) {
	f.Add(`{"properties": {"a": {"type": ["integer", "null"], "minimum": 3}}, "allOf": [{"anyOf": [{"$ref": "#"}, {"pattern": "^a+$"}]}], "additionalProperties": true}`)
	f.Fuzz(func(t *testing.T, schema string) {
		text, err := JSONSchema([]byte(schema))
		if err != nil {
			return
		}
		if _, err := Parse(text); err != nil {
			require.NotContains(t, err.Error(), "column", "%s\n%s", schema, text)
		}
	})
}
