package plainjson_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goggml/ggml/internal/plainjson"
)

func TestError(t *testing.T) {
	type inner struct {
		List []int          `json:"list"`
		Map  map[string]int `json:"map"`
	}
	type outer struct {
		Flag   bool    `json:"flag"`
		Text   string  `json:"text"`
		Number float32 `json:"number"`
		Whole  *int64  `json:"whole"`
		Count  uint8   `json:"count"`
		Inner  inner   `json:"inner"`
	}
	for text, want := range map[string]string{
		`{"flag": "yes"}`:        "flag: it is a string, and must be true or false",
		`{"text": true}`:         "text: it is true or false, and must be a string",
		`{"number": []}`:         "number: it is an array, and must be a number that 32 bits hold",
		`{"number": 1e99}`:       "number: it is 1e99, and must be a number that 32 bits hold",
		`{"whole": 1.5}`:         "whole: it is 1.5, and must be a whole number that 64 bits hold",
		`{"count": -1}`:          "count: it is -1, and must be a whole number from 0 that 8 bits hold",
		`{"inner": 3}`:           "inner: it is a number, and must be an object",
		`{"inner": {"list": 3}}`: "inner.list: it is a number, and must be an array",
		`{"inner": {"map": 3}}`:  "inner.map: it is a number, and must be an object",
		`[]`:                     "it is an array, and must be an object",
		`{`:                      "unexpected end of JSON input",
	} {
		assert.EqualError(t, plainjson.Unmarshal([]byte(text), &outer{}), want, text)
	}
}
