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
		`{"flag": "yes"}`:        "flag: it is a string, but must be true or false",
		`{"text": true}`:         "text: it is true or false, but must be a string",
		`{"number": []}`:         "number: it is an array, but must be a number that fits into 32 bits",
		`{"number": 1e99}`:       "number: it is 1e99, but must be a number that fits into 32 bits",
		`{"whole": 1.5}`:         "whole: it is 1.5, but must be a whole number that fits into 64 bits",
		`{"count": -1}`:          "count: it is -1, but must be a whole number of at least 0 that fits into 8 bits",
		`{"inner": 3}`:           "inner: it is a number, but must be an object",
		`{"inner": {"list": 3}}`: "inner.list: it is a number, but must be an array",
		`{"inner": {"map": 3}}`:  "inner.map: it is a number, but must be an object",
		`[]`:                     "it is an array, but must be an object",
		`{`:                      "unexpected end of JSON input",
	} {
		assert.EqualError(t, plainjson.Unmarshal([]byte(text), &outer{}), want, text)
	}
}
