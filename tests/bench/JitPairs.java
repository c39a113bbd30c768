// Pairs of allocation and free from the compiled code of a JVM, below methods that call themselves: see jit.sh.
public class JitPairs {
  static native void start();

  static native long allocate(long bytes);

  static native void release(long memory);

  static long deep(int depth, int i) {
    if (depth == 0) {
      long memory = allocate(512 + (i & 7));
      release(memory);
      return memory;
    }
    // Values that live across the call: the compiler keeps them in registers, rbp among them.
    long a = i * 31L + depth, b = a ^ depth, c = b + i, d = c * 3, e = d - a, f = e ^ b;
    return deep(depth - 1, i + 1) + a + b + c + d + e + f;
  }

  public static void main(String[] arguments) {
    System.load(arguments[0]);
    start();
    int count = Integer.parseInt(arguments[1]);
    long sum = 0;
    long begin = System.nanoTime();
    for (int i = 0; i < count; i++) sum += deep(5 + i % 4, i);
    System.out.printf("%.2f s%s%n", (System.nanoTime() - begin) * 1e-9, sum == 1 ? " " : "");
  }
}
