"""The reference numbers for the comparisons in the README: `pip install jax`, then `python benches/compare/jax_reference.py`.

Prints medians. Calls are synchronised with block_until_ready.
"""

import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)


def median_us(f, repeats):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


def first_call_ms(make, *args):
    start = time.perf_counter()
    jax.block_until_ready(make()(*args))
    return (time.perf_counter() - start) * 1e3


def small():
    f = lambda x: jnp.sum(jnp.sin(x) * x)
    x = jnp.asarray([0.5, -1.0, 2.0])
    print(f"value_and_grad of sum(sin(x)*x), f64[3], first call: {first_call_ms(lambda: jax.jit(jax.value_and_grad(f)), x):.1f} ms")
    g = jax.jit(jax.value_and_grad(f))
    jax.block_until_ready(g(x))
    print(f"value_and_grad of sum(sin(x)*x), f64[3], per call: {median_us(lambda: jax.block_until_ready(g(x)), 5000):.2f} us")


def chain():
    x = jnp.asarray(np.linspace(-2, 2, 10_000_000, dtype=np.float32))
    f = jax.jit(lambda x: jnp.tanh(jnp.exp(jnp.sin(x)) * x) + x)
    jax.block_until_ready(f(x))
    us = median_us(lambda: jax.block_until_ready(f(x)), 15)
    print(f"tanh(exp(sin(x))*x)+x on f32[10^7]: {us / 1e4:.3f} ns per element")
    g = jax.jit(jax.grad(lambda x: jnp.sum(jnp.tanh(jnp.exp(jnp.sin(x)) * x) + x)))
    jax.block_until_ready(g(x))
    us = median_us(lambda: jax.block_until_ready(g(x)), 15)
    print(f"its gradient: {us / 1e4:.3f} ns per element")


def mlp(sizes, batch, dtype):
    keys = jax.random.split(jax.random.key(0), len(sizes))
    params = [
        (jax.random.normal(k, (m, n), dtype) * (2 / m) ** 0.5, jnp.zeros(n, dtype))
        for k, m, n in zip(keys, sizes, sizes[1:])
    ]
    x = jax.random.normal(keys[-1], (batch, sizes[0]), dtype)
    y = jnp.arange(batch) % sizes[-1]

    def loss(params):
        h = x
        for w, b in params[:-1]:
            h = jax.nn.relu(h @ w + b)
        w, b = params[-1]
        logits = jax.nn.log_softmax(h @ w + b)
        return -jnp.mean(logits[jnp.arange(batch), y])

    name = "-".join(map(str, sizes))
    print(f"value_and_grad of MLP {name}, batch {batch}, first call: {first_call_ms(lambda: jax.jit(jax.value_and_grad(loss)), params):.0f} ms")
    g = jax.jit(jax.value_and_grad(loss))
    jax.block_until_ready(g(params))
    print(f"value_and_grad of MLP {name}, batch {batch}, per call: {median_us(lambda: jax.block_until_ready(g(params)), 300):.0f} us")


if __name__ == "__main__":
    print(f"jax {jax.__version__}, {jax.devices()}")
    small()
    chain()
    mlp((64, 128, 128, 10), 64, jnp.float32)
    mlp((784, 512, 512, 10), 128, jnp.float32)
