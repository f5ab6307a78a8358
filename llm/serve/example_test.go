package serve_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/goggml/ggml/llm"
	"github.com/goggml/ggml/llm/serve"
)

// Mount a model in a program's own server, and ask it as a client of OpenAI's protocol does.
func Example() {
	model, err := llm.Open(modelPath, llm.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	handler, err := serve.New(model, serve.Options{Name: "sky"})
	if err != nil {
		log.Fatal(err)
	}
	server := httptest.NewServer(handler) // or http.ListenAndServe
	defer server.Close()

	request := `{"model": "sky", "messages": [{"role": "user", "content": "Why is the sky blue?"}], "temperature": 0}`
	response, err := http.Post(server.URL+"/v1/chat/completions", "application/json", strings.NewReader(request))
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		log.Fatal(err)
	}
	_, message, _ := strings.Cut(string(body), `"message":`)
	message, _, _ = strings.Cut(message, "}")
	fmt.Println(message + "}")
	// Output: {"content":"Because air scatters blue light most.","role":"assistant"}
}
