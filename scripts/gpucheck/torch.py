"""PyTorch's product in BF16, and for each line of JSON with a shape the time of a step of LoRA by PEFT on it.

    python3 torch.py SIZE
"""

import json
import sys
import time

import torch


def product(n):
    """FLOP/s of a product of n rows, columns and depth."""
    a, b = (torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    times = []
    for _ in range(6):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(8):
            a @ b
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / 8)
    return 2 * n**3 / sorted(times[1:])[2]


def step(s):
    """Median time of a step, and the most memory it took."""
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = LlamaForCausalLM(LlamaConfig(
            vocab_size=s["Vocab"], hidden_size=s["Embd"], intermediate_size=s["FF"], num_hidden_layers=s["Layers"],
            num_attention_heads=s["Heads"], num_key_value_heads=s["KVHeads"], head_dim=s["HeadSize"],
            max_position_embeddings=max(4096, s["Context"]), use_cache=False, attn_implementation="sdpa"))
    torch.set_default_dtype(torch.float32)
    model = get_peft_model(model, LoraConfig(
        r=s["Rank"], lora_alpha=16, task_type="CAUSAL_LM",
        target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]))
    model.train()
    if s["Checkpointing"]:
        model.enable_input_require_grads()
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)
    tokens = torch.randint(s["Vocab"], (s["Rows"], s["Context"]), device="cuda")
    times = []
    for _ in range(5):
        torch.cuda.synchronize()
        start = time.perf_counter()
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return {"Seconds": sorted(times[1:])[2], "Memory": torch.cuda.max_memory_allocated()}


def main():
    print(product(int(sys.argv[1])), torch.__version__, flush=True)
    for line in sys.stdin:
        try:
            answer = step(json.loads(line))
        except Exception as e:  # of this shape only, such as too little memory
            answer = {"Error": f"{type(e).__name__}: {str(e).splitlines()[0][:200]}"}
        print(json.dumps(answer), flush=True)


main()
