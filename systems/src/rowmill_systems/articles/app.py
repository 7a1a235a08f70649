"""The articles that the environment describes. `--app rowmill_systems.articles.app:mill` works with every command."""

from rowmill_systems.articles.articles import Articles
from rowmill_systems.articles.settings import ArticlesSettings

articles = Articles(ArticlesSettings())
mill = articles.mill
