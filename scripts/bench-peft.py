"""Trains a LoRA adapter with PyTorch and PEFT, for the benchmarks BesidePEFT and, by TRL's DPO trainer, BesideTRL of llm/train.

    python scripts/bench-peft.py FOLDER {float32|bfloat16}

Standard input has a line of JSON with the model's shape and the settings. For each line "true" after it a step is done
and answered with a line of JSON: its loss, its time and the peak memory, also that before there was a model. The folder
has weights.bin with all tensors as float32 in the order and layout of the GGUF file, and tokens.bin with the batches as
int32.
"""

import json
import re
import resource
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

# GGUF's names of a layer's tensors, and transformers' names.
LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
OTHER = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def target(name):
    """transformers' name of a GGUF tensor, without .weight."""
    name = name.removesuffix(".weight")
    if found := re.fullmatch(r"blk\.(\d+)\.(\w+)", name):
        return f"model.layers.{found[1]}.{LAYER[found[2]]}"
    return OTHER[name]


def halves(rows, heads):
    """Turns rows for pairs of neighbours, which GGUF rotates, into those for pairs of halves."""
    size = rows.shape[0] // heads
    return rows.reshape(heads, size // 2, 2, -1).transpose(1, 2).reshape(rows.shape)


def load(run, folder, dtype):
    """The model, and the adapters' matrices A by name. Takes little more memory than the model."""
    config = LlamaConfig(
        vocab_size=run["Vocab"], hidden_size=run["Embd"], intermediate_size=run["FF"],
        num_hidden_layers=run["Layers"], num_attention_heads=run["Heads"], num_key_value_heads=run["KVHeads"],
        head_dim=run["HeadSize"], rms_norm_eps=run["Eps"], max_position_embeddings=run["Context"],
        rope_parameters={"rope_type": "default", "rope_theta": run["RoPEBase"]},
        tie_word_embeddings=run["Tied"], use_cache=False,
    )
    torch.set_default_dtype(dtype)
    model = LlamaForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    parameters = dict(model.named_parameters())
    adapters = {}
    with open(folder / "weights.bin", "rb") as file, torch.no_grad():
        for tensor in run["Tensors"]:
            values = torch.from_numpy(np.fromfile(file, np.float32, int(np.prod(tensor["Shape"]))))
            values = values.reshape(tensor["Shape"][::-1])  # GGUF lists the fastest dimension first
            if tensor["Name"].endswith(".lora_a"):
                adapters[target(tensor["Name"].removesuffix(".lora_a"))] = values
                continue
            if ".attn_q." in tensor["Name"]:
                values = halves(values, run["Heads"])
            if ".attn_k." in tensor["Name"]:
                values = halves(values, run["KVHeads"])
            parameters.pop(target(tensor["Name"]) + ".weight").copy_(values)
    if parameters:
        sys.exit(f"the file has no values for {sorted(parameters)}")
    return model, adapters


def adapt(model, adapters, run):
    """Puts LoRA on the model, with the given A and B = 0."""
    config = LoraConfig(
        r=run["Rank"], lora_alpha=run["Alpha"], lora_dropout=0.0, bias="none", task_type="CAUSAL_LM",
        target_modules=sorted({name.rsplit(".", 1)[1] for name in adapters}),
    )
    model = get_peft_model(model, config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if found := re.fullmatch(r"base_model\.model\.(.*)\.lora_A\.default\.weight", name):
                parameter.copy_(adapters.pop(found[1]))
    if adapters:
        sys.exit(f"PEFT has made no adapter for {sorted(adapters)}")
    return model


def cross_entropy(model, run):
    """A function from a batch of sequences to their loss; it prepares the batch, and what it returns is timed."""

    def prepare(batch):
        tokens = torch.from_numpy(batch.astype(np.int64))

        def loss():
            logits = model(input_ids=tokens[:, :-1]).logits
            return torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())

        return loss

    return prepare


def preference(model, run):
    """The same of pairs. The probabilities of the reference are a part of the preparation."""
    import datasets
    import trl
    from tokenizers import Tokenizer, models

    words = Tokenizer(models.WordLevel({"<pad>": 0, "<eos>": 1, "a": 2, "b": 3}, unk_token="<pad>"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", bos_token="<eos>")
    given = type("DPO", (trl.DPOTrainer,), {"_prepare_dataset": lambda self, dataset, *args, **kwargs: dataset})
    arguments = trl.DPOConfig(
        output_dir="unused", use_cpu=True, bf16=False, report_to="none", gradient_checkpointing=False, per_device_train_batch_size=2,
        remove_unused_columns=False, beta=0.1,
    )
    rows = datasets.Dataset.from_list([{"prompt": "a", "chosen": "a", "rejected": "b"}] * 2)
    trainer = given(model=model, args=arguments, train_dataset=rows, processing_class=tokenizer)
    trainer.precompute_ref_logps = True

    def prepare(batch):
        prompt = run["Prompt"]
        inputs = trainer.data_collator([
            {"prompt_ids": chosen[:prompt].tolist(), "chosen_ids": chosen[prompt:].tolist(), "rejected_ids": rejected[prompt:].tolist()}
            for chosen, rejected in batch.reshape(run["Batch"], 2, -1)
        ])
        inputs["ref_chosen_logps"], inputs["ref_rejected_logps"] = trainer.compute_ref_log_probs(model, inputs)
        return lambda: trainer._compute_loss(model, inputs, False)

    return prepare


def trainer(model, run):
    """A function that does a step of a loss, and returns its value."""
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(
        trained, lr=run["Rate"], betas=(run["Beta1"], run["Beta2"]), eps=run["Epsilon"], weight_decay=run["Decay"])

    def step(loss):
        loss = loss()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, run["Clip"])
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    return step


def peak():
    """The largest resident memory of this process in bytes."""
    try:
        status = Path("/proc/self/status").read_text()
        return int(re.search(r"VmHWM:\s*(\d+) kB", status)[1]) * 1024
    except (OSError, TypeError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main():
    warnings.simplefilter("ignore", FutureWarning)  # names that differ between versions of transformers
    libraries = peak()
    folder, dtype = Path(sys.argv[1]), getattr(torch, sys.argv[2])
    run = json.loads(sys.stdin.readline())
    torch.set_num_threads(run["Threads"])
    model, adapters = load(run, folder, dtype)
    model = adapt(model, adapters, run)
    model.train()
    if run["Checkpointing"]:
        model.enable_input_require_grads()
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    prepare = (preference if run["Prefer"] else cross_entropy)(model, run)
    step = trainer(model, run)
    sequences = run["Batch"] * (2 if run["Prefer"] else 1)
    for batch in np.fromfile(folder / "tokens.bin", np.int32).reshape(-1, sequences, run["Length"] + 1):
        if sys.stdin.readline() != "true\n":
            break
        prepared = prepare(batch)
        start = time.perf_counter()
        loss = step(prepared)
        result = {"Loss": loss, "Seconds": time.perf_counter() - start, "Libraries": libraries}
        print(json.dumps({"Result": result, "Peak": peak()}), flush=True)


main()
