import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Runs Debezium's engine. Arguments: properties, folder: each batch of its events becomes a file with an event per line. With an
 * address of Kafka, a topic and its number of partitions, events go there; all events of a table are in one partition.
 */
public class Events {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (FileInputStream file = new FileInputStream(arguments[0])) {
            properties.load(file);
        }
        Path folder = Path.of(arguments[1]);
        Sink sink = arguments.length == 2 ? events -> write(folder, events) : topic(arguments[2], arguments[3], arguments[4]);
        DebeziumEngine<ChangeEvent<String, String>> engine = DebeziumEngine.create(Json.class)
                .using(properties)
                .notifying((List<ChangeEvent<String, String>> events, DebeziumEngine.RecordCommitter<ChangeEvent<String, String>> done) -> {
                    sink.write(events);
                    for (ChangeEvent<String, String> event : events) {
                        done.markProcessed(event);
                    }
                    done.markBatchFinished();
                })
                .using((success, message, error) -> {
                    System.err.println("the engine has ended: " + message);
                    if (error != null) {
                        error.printStackTrace();
                    }
                })
                .build();
        engine.run();
    }

    interface Sink {
        void write(List<ChangeEvent<String, String>> events) throws InterruptedException;
    }

    private static Sink topic(String address, String name, String partitions) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", address);
        properties.put("acks", "all");
        KafkaProducer<String, String> producer = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
        return events -> {
            List<Future<?>> sent = new ArrayList<>();
            for (ChangeEvent<String, String> event : events) {
                int partition = Math.floorMod(event.destination().hashCode(), Integer.parseInt(partitions));
                sent.add(producer.send(new ProducerRecord<>(name, partition, event.key(), event.value())));
            }
            for (Future<?> one : sent) {
                try {
                    one.get();
                } catch (ExecutionException error) {
                    throw new RuntimeException(error);
                }
            }
        };
    }

    /** A file appears when it is complete. Names ascend, also after a restart. */
    private static void write(Path folder, List<ChangeEvent<String, String>> events) {
        StringBuilder text = new StringBuilder();
        for (ChangeEvent<String, String> event : events) {
            if (event.value() != null) {
                text.append(event.value()).append('\n');
            }
        }
        if (text.length() == 0) {
            return;
        }
        try {
            Thread.sleep(2); // files of one millisecond would have no order
            String name = String.format("%019d", System.currentTimeMillis() * 1_000_000 + System.nanoTime() % 1_000_000);
            Path hidden = folder.resolve("." + name);
            try (FileOutputStream file = new FileOutputStream(hidden.toFile())) {
                file.write(text.toString().getBytes(StandardCharsets.UTF_8));
                file.getFD().sync();
            }
            Files.move(hidden, folder.resolve(name + ".jsonl"), StandardCopyOption.ATOMIC_MOVE);
        } catch (Exception error) {
            throw new RuntimeException(error);
        }
    }
}
