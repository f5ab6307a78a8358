package serve

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"net/http"
)

// page lets a person talk with the models in a browser.
//
//go:embed page.html
var page []byte

// pagePolicy allows the page its own style and script, and requests to this server alone.
var pagePolicy = "default-src 'none'; script-src " + hashOf("script") + "; style-src " + hashOf("style") + "; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// hashOf returns the hash of an element of the page as policies have it.
func hashOf(element string) string {
	_, text, _ := bytes.Cut(page, []byte("<"+element+">"))
	text, _, _ = bytes.Cut(text, []byte("</"+element+">"))
	sum := sha256.Sum256(text)
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

func (h *Handler) page(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", pagePolicy)
	w.Header().Set("Referrer-Policy", "no-referrer")
	_, err := w.Write(page)
	_ = err // a client that is gone misses nothing
	return nil
}
